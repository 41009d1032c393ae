"""What word vectors are measured on: pairs of words that people have judged, and analogies."""

from pathlib import Path

from headway.config.errors import Problem
from headway.data.files import open_text
from headway.tasks.word2vec.evaluation import Judged


def judged_pairs(path: Path) -> list[Judged]:
    """Two words and a number on each line, with tabs, commas or spaces between them; a line without a number is a
    heading."""
    found = []
    with open_text(path, "utf-8") as file:
        for line, text in enumerate(file, start=1):
            parts = text.lower().replace(",", " ").split()
            if not parts or text.startswith("#"):
                continue
            try:
                found.append(Judged(parts[0], parts[1], float(parts[2])))
            except (IndexError, ValueError):
                if found:
                    raise Problem(f"{path}, line {line}: not two words and a number: {text.strip()[:60]!r}") from None
    if not found:
        raise Problem(f"{path}: no line has two words and a number")
    return found


def questions(path: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """Four words on each line; a line that begins with a colon names the section."""
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    section = path.name
    with open_text(path, "utf-8") as file:
        for line, text in enumerate(file, start=1):
            parts = text.lower().split()
            if text.startswith(":"):
                section = text[1:].strip()
            elif len(parts) == 4:
                found.setdefault(section, []).append((parts[0], parts[1], parts[2], parts[3]))
            elif parts:
                raise Problem(f"{path}, line {line}: not four words: {text.strip()[:60]!r}")
    if not found:
        raise Problem(f"{path} has no questions in it")
    return found


def is_of_questions(path: Path) -> bool:
    with open_text(path, "utf-8") as file:
        return next((text.startswith(":") or len(text.split()) == 4 for text in file if text.strip()), False)
