"""The tokens of Python source and what each of them is, read off its syntax tree.

The same name is a parameter in one place and an attribute, an argument or a variable in another: the word alone does
not tell. The source is the standard library of this machine, so nothing has to be downloaded.
"""

import ast
import json
import keyword
import sys
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.data.cache import kept, key_of
from headway.data.files import Progress, silent
from headway.data.readers import texts_of
from headway.data.splitting import fingerprint
from headway.data.words import python_tokens

ENOUGH = 400_000  # tokens
LINES = 60  # tokens in a sequence, in which whole logical lines stand
APART = ("test", "tests", "idle_test")  # folders
NAME = "python"
DEFINING = {"def": "function", "class": "class", "as": "target"}  # what the name after a keyword is
KINDS = {tokenize.NUMBER: "number", tokenize.OP: "operator", tokenize.ERRORTOKEN: "operator"}  # others: strings
Place = tuple[int, int]


class Names:
    """What the names of a file are, by the line and the column, in bytes, where they begin."""

    def __init__(self, tree: ast.AST) -> None:
        self.kinds: dict[Place, str] = {}
        self.imports: dict[Place, Place] = {}  # where import statements begin and end
        self.called: set[int] = set()
        for node in ast.walk(tree):  # from the outside to the inside: a call comes before what is called
            self.read(node)

    def read(self, node: ast.AST) -> None:
        is_called = id(node) in self.called
        if isinstance(node, ast.Call):
            self.called.add(id(node.func))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imports[place_of(node)] = end_of(node)
        elif isinstance(node, ast.arg):
            self.kinds[place_of(node)] = "parameter"
        elif isinstance(node, ast.keyword) and node.arg is not None:
            self.kinds[place_of(node)] = "argument"
        elif isinstance(node, ast.Attribute):
            line, column = end_of(node)
            self.kinds[line, column - len(node.attr.encode())] = "method" if is_called else "attribute"
        elif isinstance(node, ast.Name):
            loaded = "call" if is_called else "name"
            self.kinds[place_of(node)] = loaded if isinstance(node.ctx, ast.Load) else "target"


def place_of(node: Any) -> Place:
    return node.lineno, node.col_offset


def end_of(node: Any) -> Place:
    return node.end_lineno, node.end_col_offset


def tagged_tokens(source: str) -> Iterator[tuple[str, str, int]]:
    """The tokens of a file, each with its tag and the number of its logical line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd escapes in strings
        names = Names(ast.parse(source))
    lines = source.splitlines(keepends=True)
    before, logical, depth, importing, row = "", 0, 0, (0, 0), 0
    for token in python_tokens(source):
        place = token.start[0], len(lines[token.start[0] - 1][: token.start[1]].encode())
        if depth == 0 and token.start[0] > row:
            logical += 1
        importing = names.imports.get(place, importing)
        yield token.string, tag_of(token, names.kinds.get(place), before, place < importing), logical
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        before, row = token.string, token.end[0]


def tag_of(token: tokenize.TokenInfo, kind: str | None, before: str, in_import: bool) -> str:
    if token.type != tokenize.NAME:
        return KINDS.get(token.type, "string")
    if keyword.iskeyword(token.string):
        return "keyword"
    if in_import:
        return "module"
    soft = "keyword" if keyword.issoftkeyword(token.string) and token.string != "_" else "name"
    return DEFINING.get(before) or kind or soft


def sentences_of(source: str) -> Iterator[tuple[list[str], list[str]]]:
    """Logical lines, as many as fit into a sequence."""
    words: list[str] = []
    tags: list[str] = []
    line: list[tuple[str, str]] = []
    at = 0
    for word, tag, logical in [*tagged_tokens(source), ("", "", -1)]:
        if logical != at:
            if words and len(words) + len(line) > LINES:
                yield words, tags
                words, tags = [], []
            words, tags = [*words, *(each for each, _ in line)], [*tags, *(each for _, each in line)]
            line, at = [], logical
        line.append((word, tag))
    if words:
        yield words, tags


def library_files() -> list[Path]:
    """The standard library's files, in an order that has nothing to do with their names."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = [path for path in texts_of(root, "*.py") if not set(path.relative_to(root).parts) & set(APART)]
    return sorted(files, key=lambda path: fingerprint(str(path.relative_to(root))))


def python_tags(progress: Progress = silent) -> Path:
    """The file of tagged sequences, each with the file that it is from; made once for each version of Python."""

    def write(folder: Path) -> None:
        made = 0
        with (folder / f"{NAME}.jsonl").open("w", encoding="utf-8") as out:
            for path in library_files():
                if made >= ENOUGH:
                    break
                try:
                    rows = list(sentences_of(path.read_text(encoding="utf-8")))
                except (
                    SyntaxError,
                    ValueError,
                    OSError,
                ):  # not every file of an installation is Python of this version
                    continue
                for words, tags in rows:
                    row = {"tokens": words, "tags": tags, "document": path.name}
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
                    made += len(words)
                progress("reading the standard library", min(made / ENOUGH, 1.0))

    key = key_of(name=f"{NAME} tags", version=1, python=sys.version, files=len(library_files()))
    return kept("made", key, write) / f"{NAME}.jsonl"
