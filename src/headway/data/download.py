"""Named data sets: fetched from their public addresses once, checked, unpacked, and kept in the cache."""

import hashlib
import tarfile
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from headway.config.errors import Problem
from headway.data.cache import cache_folder, kept
from headway.data.files import Progress, silent


@dataclass(frozen=True)
class DataSet:
    name: str
    address: str
    sha256: str
    train: str  # where in the archive
    test: str
    texts: str = "*"  # the names of the files there that are texts
    group: str | None = None


NAMED = {
    "imdb": DataSet(
        "imdb",
        "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        train="aclImdb/train",
        test="aclImdb/test",
        texts="[0-9]*.txt",
        group="url",
    )
}


def fetch(data: DataSet, progress: Progress = silent) -> dict[str, str]:
    """Its files by their use: ``train`` and ``test``."""
    place = kept("sets", f"{data.name}-{data.sha256[:16]}", lambda folder: download_and_unpack(data, folder, progress))
    return {"train": str(place / data.train), "test": str(place / data.test)}


def download_and_unpack(data: DataSet, folder: Path, progress: Progress) -> None:
    archive = folder / "archive"
    found = download(data, archive, progress)
    if found != data.sha256:
        raise Problem(
            f"{data.address} is not what it should be: its SHA-256 is {found}, not {data.sha256}; {remedy(data)}"
        )
    unpack(archive, folder)
    archive.unlink()


def download(data: DataSet, target: Path, progress: Progress) -> str:
    """The SHA-256 of what came."""
    digest, done = hashlib.sha256(), 0
    try:
        with urlopen(data.address, timeout=30) as response, target.open("wb") as file:
            size = int(response.headers.get("Content-Length") or 0)
            while piece := response.read(1 << 16):
                file.write(piece)
                digest.update(piece)
                done += len(piece)
                progress(f"fetching {data.name}", done / size if size else 0.0)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Problem(f"{data.address} cannot be fetched: {reason}; {remedy(data)}") from None
    return digest.hexdigest()


def remedy(data: DataSet) -> str:
    return (
        f"if you have the files, name them instead: data.train=FOLDER/{data.train} data.test=FOLDER/{data.test}"
        f"{f' data.group={data.group}' if data.group else ''}; fetched sets are kept in {cache_folder() / 'sets'}"
    )


def unpack(archive: Path, folder: Path) -> None:
    """Nothing is written outside of the folder, whatever names the archive has."""
    try:
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Problem(f"the archive cannot be unpacked: {str(error).splitlines()[0]}") from None
