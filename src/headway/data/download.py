"""Named datasets: downloaded once, verified, unpacked and cached."""

import gzip
import hashlib
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.request import urlopen

from headway.config.errors import Problem
from headway.data.cache import cache_folder, kept
from headway.data.files import Progress, silent

MOST_BYTES, MOST_FILES = 1 << 30, 200_000  # of an archive


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
                if done > MOST_BYTES:
                    raise Problem(f"it is larger than {MOST_BYTES:,} bytes")
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


def unpack(archive: Path, folder: Path, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
    """Only files and folders, only into this folder, nothing twice, and no more than so much: whatever is inside."""
    try:
        with gzip.open(archive) as file, tarfile.open(fileobj=Limited(file, most_bytes), mode="r|") as content:
            for number, member in enumerate(content, start=1):
                if number > most_files:
                    raise Problem(f"more than {most_files:,} files")
                content.members.clear()  # it keeps them all
                unpack_member(content, member, folder)
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise Problem(f"the archive cannot be unpacked: {' '.join(str(error).split()):.200}") from None


def unpack_member(content: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    place = PurePosixPath(member.name)
    if place.is_absolute() or ".." in place.parts or set(member.name) & set("\\:\0"):
        raise Problem(f"{member.name!r} leads outside of the folder")
    path = folder / place
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    source = content.extractfile(member) if member.isreg() else None
    if source is None:
        raise Problem(f"{member.name!r} is not a file, but a link or a device")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as target:
        shutil.copyfileobj(source, target)


class Limited:
    """A stream that may not be longer than announced: a few bytes can expand to any size."""

    def __init__(self, file: IO[bytes], most: int):
        self.file, self.left, self.most = file, most, most

    def read(self, size: int) -> bytes:
        piece = self.file.read(size)
        self.left -= len(piece)
        if self.left < 0:
            raise Problem(f"it expands to more than {self.most:,} bytes")
        return piece
