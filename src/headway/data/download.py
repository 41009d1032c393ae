"""Named datasets: downloaded once, verified, unpacked and cached."""

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
    train: str  # path in the archive
    test: str
    texts: str = "*"  # pattern for the files that are texts
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
    """The paths of its ``train`` and ``test`` data."""
    folder = kept("sets", f"{data.name}-{data.sha256[:16]}", lambda new: download_and_unpack(data, new, progress))
    return {"train": str(folder / data.train), "test": str(folder / data.test)}


def download_and_unpack(data: DataSet, folder: Path, progress: Progress) -> None:
    archive = folder / "archive"
    sha256 = download(data, archive, progress)
    if sha256 != data.sha256:
        raise Problem(f"{data.address} has changed: its SHA-256 is {sha256}, not {data.sha256}; {remedy(data)}")
    unpack(archive, folder)
    archive.unlink()


def download(data: DataSet, target: Path, progress: Progress) -> str:
    """Returns the SHA-256 of the content."""
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
        raise Problem(f"{data.address} cannot be downloaded: {reason}; {remedy(data)}") from None
    return digest.hexdigest()


def remedy(data: DataSet) -> str:
    return (
        f"if you have the files, set data.train=FOLDER/{data.train} data.test=FOLDER/{data.test}"
        f"{f' data.group={data.group}' if data.group else ''}; downloads are cached in {cache_folder() / 'sets'}"
    )


def unpack(archive: Path, folder: Path) -> None:
    """The filter refuses names in the archive that lead outside of the folder."""
    try:
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Problem(f"the archive cannot be unpacked: {str(error).splitlines()[0]}") from None
