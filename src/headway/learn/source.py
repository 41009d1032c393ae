"""Exercises are cut from the library's own modules: from the lines between two comments,

    # learn: begin attn.scaled
    ...
    # learn: end

The learner gets the function around them, without these lines. A mistake of the catalogue is an edit of them.
"""

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from headway.config.errors import Problem

MARKER = re.compile(r"^ *# learn: (begin ([\w.]+)|end)$")
Edit = tuple[str, str]  # what stands there, and what stands there instead


@dataclass(frozen=True)
class Region:
    """The lines between two markers, and the function around them."""

    name: str
    module: str
    first: int  # the line of the marker at the beginning, from 1 on,
    last: int  # and of that at the end

    @property
    def lines(self) -> list[str]:
        return source_lines(self.module)

    @cached_property
    def around(self) -> list[ast.FunctionDef | ast.ClassDef]:
        """The class, if any, and the function."""
        found: list[ast.FunctionDef | ast.ClassDef] = []
        for node in ast.walk(ast.parse("\n".join(self.lines))):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            if node.lineno < self.first and self.last - 1 <= (node.end_lineno or 0):
                found.append(node)
        if not found or not isinstance(found[-1], ast.FunctionDef):
            raise Problem(f"{self.module}: the markers of {self.name} are not inside one function")
        return found

    @property
    def target(self) -> str:
        """``SelfAttention.forward``."""
        return ".".join(node.name for node in self.around)

    @property
    def solution(self) -> list[str]:
        return self.lines[self.first : self.last - 1]

    def function_text(self) -> str:
        """The whole function, without decorators and markers."""
        node: Any = self.around[-1]
        own = [line for line in self.lines[node.lineno - 1 : node.end_lineno] if not MARKER.match(line)]
        return textwrap.dedent("\n".join(own))

    def original(self) -> Any:
        """The function of the library itself."""
        found: Any = importlib.import_module(self.module)
        for name in self.target.split("."):
            found = getattr(found, name)
        return found

    def function(self, edits: Sequence[Edit] = (), text: str | None = None) -> Any:
        """The function again, compiled apart from the library; perhaps with a mistake."""
        return compiled(edited(text or self.function_text(), edits), self.module)

    def without_solution(self) -> list[str]:
        """The lines of the module, with the marked ones replaced."""
        marker = self.lines[self.first - 1]
        indent = marker[: len(marker) - len(marker.lstrip())]
        missing = [f"{indent}# TODO: your code here", f'{indent}raise NotImplementedError("{self.name}")']
        return [*self.lines[: self.first - 1], *missing, *self.lines[self.last :]]

    def with_solution(self) -> list[str]:
        return [*self.lines[: self.first - 1], *self.solution, *self.lines[self.last :]]

    def cut(self, lines: list[str]) -> str:
        """From the lines of the module, in which the region may have another size: imports, and what is around it."""
        moved = len(lines) - len(self.lines)
        parts: list[str] = []
        for node in self.kept():
            start, end = node.lineno - 1, node.end_lineno
            if start > self.last:  # it comes after the region
                start, end = start + moved, end + moved
            elif end >= self.first:
                end = max(end, self.last) + moved
            parts.append("\n".join(line for line in lines[start:end] if not MARKER.match(line)))
        return "\n".join([*self.imports(), "", "", "\n\n".join(parts)]) + "\n"

    def kept(self) -> list[Any]:
        """The nodes that the learner sees: the function; of a class its head, how it is made, and the method."""
        *classes, function = self.around
        if not classes:
            return [function]
        kind: Any = classes[0]
        inits = [node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        first = min((node.lineno for node in kind.body if isinstance(node, ast.FunctionDef)), default=kind.lineno)
        head = ast.Pass(lineno=kind.lineno, end_lineno=first - 1)
        while not self.lines[head.end_lineno - 1].strip():  # type: ignore[operator]
            head.end_lineno -= 1  # type: ignore[operator]
        return [head, *[node for node in inits if node is not function], function]

    def imports(self) -> list[str]:
        """Those of the module that are of use here; what the module defines itself is imported from it."""
        tree = ast.parse("\n".join(self.lines))
        texts = ["\n".join(self.lines[node.lineno - 1 : node.end_lineno]) for node in self.kept()]
        used = set(re.findall(r"[A-Za-z_]\w*", "\n".join(texts)))
        there = {"math": "import math", "torch": "import torch"}  # which one nearly always wants
        own = []
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for each in node.names:
                    name = each.asname or each.name
                    if name in used:
                        renamed = f"{each.name} as {each.asname}" if each.asname else each.name
                        where = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
                        there[name] = f"{where}import {renamed}"
            else:
                own += [name for name in defined(node) if name in used and name != self.target.partition(".")[0]]
        lines = sorted(
            set(there.values()), key=lambda line: (line.startswith("from headway"), line.startswith("from"), line)
        )
        return [*lines, *(f"from {self.module} import {name}" for name in own)]


def defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


@cache
def source_lines(module: str) -> list[str]:
    path = importlib.import_module(module).__file__
    return Path(str(path)).read_text(encoding="utf-8").splitlines()


@cache
def regions(module: str) -> dict[str, Region]:
    return {region.name: region for region in read_regions(module, source_lines(module))}


def read_regions(module: str, lines: Sequence[str]) -> Iterator[Region]:
    name, first = "", 0
    for number, line in enumerate(lines, start=1):
        match = MARKER.match(line)
        if match is None:
            continue
        if (match[1] == "end") != bool(name):
            raise Problem(f"{module}:{number}: a marker of an exercise begins inside another one, or ends without one")
        if name:
            yield Region(name, module, first, number)
        name, first = match[2] or "", number
    if name:
        raise Problem(f"{module}:{first}: the exercise {name} has no end")


def region(name: str, module: str) -> Region:
    if name not in regions(module):
        raise Problem(f"{module} has no marker '# learn: begin {name}'")
    return regions(module)[name]


def edited(text: str, edits: Sequence[Edit]) -> str:
    for old, new in edits:
        if text.count(old) != 1:
            raise Problem(f"{old!r} stands {text.count(old)} times, not once, in\n{text}")
        text = text.replace(old, new)
    return text


def compiled(text: str, module: str) -> Any:
    names = executed(text, f"<{module}>", dict(vars(importlib.import_module(module))))
    return names[text.split("(")[0].removeprefix("def ").strip()]


def executed(text: str, file: str, names: dict[str, Any]) -> dict[str, Any]:
    """The only place where text becomes code: the library's own, and what a learner hands in, in a process for it."""
    exec(compile(text, file, "exec"), names)
    return names


def stand_in(function: FunctionType, code: CodeType | None = None) -> CodeType:
    """Let the library's function refuse to be called, wherever it is known; returns its code, to be put back."""
    before = function.__code__
    function.__code__ = code or accepting_all.__code__
    return before


def accepting_all(*_: Any, **__: Any) -> Any:
    raise PermissionError("this calls the function of the library that it should replace")
