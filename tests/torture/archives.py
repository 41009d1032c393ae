"""Archives and compressed files from somebody who wants to write elsewhere, or to fill the memory or the disk."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

MOST_BYTES, MOST_FILES = 1 << 20, 100  # that the archives here may expand to
ZEROS = bytes(1 << 20)
Entry = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"evil", **fields: Any) -> Entry:
    return entry(name, tarfile.REGTYPE, content, size=len(content), **fields)


def entry(name: str, kind: bytes, content: bytes = b"", **fields: Any) -> Entry:
    info = tarfile.TarInfo(name)
    for key, value in {"type": kind, **fields}.items():
        setattr(info, key, value)
    return info, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Entry:
    return entry(name, kind, linkname=target)


def archive(*entries: Entry, format: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format, errors="surrogateescape") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content) if content else None)
    return gzip.compress(stream.getvalue(), 1)


def many(count: int) -> Iterator[Entry]:
    for number in range(count):
        yield entry(f"{number}", tarfile.DIRTYPE)


def long_way_out() -> Iterator[Entry]:
    """CVE-2025-4517: links whose resolved path is too long to be resolved lead outside of the folder."""
    name, inside = "d" * 247, ""
    for step in "abcdefghijklmnop":
        yield entry(f"{inside}{name}", tarfile.DIRTYPE)
        yield link(f"{inside}{step}", name)
        inside += f"{step}/"
    yield link(f"{inside}{'l' * 254}", "../" * 16)
    yield link("escape", f"{inside}{'l' * 254}/../..")
    yield file("escape/canary")


def header_of(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """An entry that announces more than there is."""
    info = tarfile.TarInfo("big")
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def bomb(start: bytes, size: int = 64) -> bytes:
    """So many MB of zeros after the start."""
    return gzip.compress(start) + gzip.compress(ZEROS, 1) * size  # several members are one stream


def zip_archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as content:
        content.writestr("../../canary", "evil")
    return stream.getvalue()


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "..": lambda: archive(file("../canary")),
    ".. inside": lambda: archive(file("a/../../canary")),
    ".. of a folder": lambda: archive(entry("../canary", tarfile.DIRTYPE)),
    "an absolute name": lambda: archive(file("/tmp/headway-canary")),
    "an absolute name with //": lambda: archive(file("//tmp/headway-canary")),
    "a drive letter": lambda: archive(file("C:\\canary")),
    "a drive letter with /": lambda: archive(file("C:/canary")),
    "back slashes": lambda: archive(file("..\\..\\canary")),
    "a stream of NTFS": lambda: archive(file("text.txt:canary")),
    "a symbolic link out": lambda: archive(link("out", ".."), file("out/canary")),
    "a symbolic link inside": lambda: archive(file("a.txt"), link("b.txt", "a.txt")),
    "an absolute symbolic link": lambda: archive(link("out", "/tmp"), file("out/headway-canary")),
    "a link in place of a file": lambda: archive(link("a.txt", "../canary"), file("a.txt")),
    "a hard link out": lambda: archive(link("a.txt", "../outside.txt", tarfile.LNKTYPE)),
    "a hard link to a link": lambda: archive(link("a", "../canary"), link("b", "a", tarfile.LNKTYPE), file("b")),
    "a hard link in place of a file": lambda: archive(link("a", "/etc/hostname", tarfile.LNKTYPE), file("a")),
    "a path too long to resolve": lambda: archive(*long_way_out()),
    "a character device": lambda: archive(entry("zero", tarfile.CHRTYPE, devmajor=1, devminor=5)),
    "a block device": lambda: archive(entry("disk", tarfile.BLKTYPE, devmajor=8)),
    "a pipe": lambda: archive(entry("pipe", tarfile.FIFOTYPE)),
    "a name twice": lambda: archive(file("a.txt", b"good"), file("a.txt", b"evil")),
    "a file as a folder": lambda: archive(file("a"), file("a/b")),
    "a folder as a file": lambda: archive(entry("a", tarfile.DIRTYPE), file("a")),
    "the archive itself": lambda: archive(file("archive")),
    "a zero byte in a name": lambda: archive(file("a.txt", pax_headers={"path": "a\0b"})),
    "an empty name": lambda: archive(file("")),
    "a name of 10,000 letters": lambda: archive(file("a" * 10_000)),
    "10,000 folders in each other": lambda: archive(file("a/" * 10_000 + "b")),
    "very many entries": lambda: archive(*many(5_000)),
    "a bomb": lambda: bomb(header_of(64 << 20)),
    "a bomb of an unknown size": lambda: bomb(header_of(8 << 30)),
    "a bomb in a header": lambda: bomb(header_of(8 << 30, tarfile.XHDTYPE)),
    "a bomb in a long name": lambda: bomb(header_of(8 << 30, tarfile.GNUTYPE_LONGNAME)),
    "a sparse file of 1 TB": lambda: archive(
        file("sparse", b"0\n", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 40)})
    ),
    "half of an archive": lambda: archive(file("a.txt", bytes(range(256)) * 99))[:-20],
    "an archive in a ZIP": zip_archive,
    "no archive": lambda: b"evil",
    "nothing": lambda: b"",
}
HARMLESS: dict[str, Callable[[], bytes]] = {  # unpacked, as plain files and folders inside
    "a set-uid program": lambda: archive(file("program", mode=0o6777)),
    "a folder that nobody may read": lambda: archive(entry("a", tarfile.DIRTYPE, mode=0), file("a/b")),
    "a name that is no text": lambda: archive(file("\udcff\udcfe.txt"), format=tarfile.GNU_FORMAT),
    "names that differ by case": lambda: archive(file("a.txt"), file("A.txt")),
    "a size below zero": lambda: archive(file("a.txt", pax_headers={"size": "-1"})),
    "a size that is a text": lambda: archive(file("a.txt", pax_headers={"size": "__class__"})),
    "the name of a user": lambda: archive(file("a.txt", uname="root", uid=0)),
}
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {  # bombs of 100 MB in a single line
    ".gz": lambda piece: gzip.compress(piece) * 100,
    ".xz": lambda piece: lzma.compress(piece) * 100,
    ".bz2": lambda piece: bz2.compress(piece) * 100,
    ".zst": lambda piece: pa.Codec("zstd").compress(piece * 100, asbytes=True),
}


def written(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
