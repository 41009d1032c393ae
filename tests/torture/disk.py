"""A model of a disk that may lose power: what was synced is kept, and of the rest as little, or as much, as allowed.

The strictest reading of POSIX: a file's content is kept if the file was synced, its name if its folder was.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Node:
    """A file or a folder: what it is, and what of that is kept."""

    content: bytes = b""  # of a file, when it was last synced
    names: dict[str, "Node"] | None = None  # of a folder
    kept: dict[str, "Node"] = field(default_factory=dict)


class Disk:
    def __init__(self) -> None:
        self.root = Node(names={})

    def folder(self, path: Path) -> Node:
        node = self.root
        for part in path.parts:
            assert node.names is not None
            node = node.names.setdefault(part, Node(names={}))
        return node

    def do(self, kind: str, path: str, to: str, content: str | None) -> None:
        """One operation of the log that ``filelayer.recorded_verb`` writes; contents are in hexadecimal."""
        place = Path(path)
        names = self.folder(place.parent).names
        assert names is not None
        if kind in ("open", "save"):
            names.setdefault(place.name, Node())
        elif kind == "mkdir":
            names.setdefault(place.name, Node(names={}))
        elif kind in ("unlink", "remove", "rmdir"):
            names.pop(place.name, None)
        elif kind in ("rename", "replace"):
            target = self.folder(Path(to).parent).names
            assert target is not None
            target[Path(to).name] = names.pop(place.name)
        elif kind == "fsync" and content is not None:
            names[place.name].content = bytes.fromhex(content)
        elif kind == "fsync":
            folder = self.folder(place)
            folder.kept = dict(folder.names or {})

    def after_loss(self, target: Path, names_are_kept: bool, node: Node | None = None) -> None:
        """Write down what is there after a loss of power. With ``names_are_kept``, all names are there, too, and files
        that were never synced are empty."""
        node = node or self.root
        target.mkdir(exist_ok=True)
        for name, each in ((node.names or {}) if names_are_kept else node.kept).items():
            if each.names is None:
                (target / name).write_bytes(each.content)
            else:
                self.after_loss(target / name, names_are_kept, each)


def fingerprint(folder: Path) -> Any:
    """Names and contents, to tell states apart."""
    return tuple((str(path), path.read_bytes() if path.is_file() else None) for path in sorted(folder.rglob("*")))
