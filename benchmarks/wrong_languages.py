"""How many wrong labels of languages `headway data` finds, and how many of its warnings are right.

Half of the languages of Tatoeba's sentences (columns lang, eng and text, as in tatoeba112.tsv.xz) are for choosing the
margins, and the other half for measuring. One label in a hundred is made wrong: by any other one, or by that of the
language which the text resembles most. Sentences whose labels are wrong in the file itself count as false warnings.

    python benchmarks/wrong_languages.py tatoeba112.tsv.xz
    python benchmarks/wrong_languages.py tatoeba112.tsv.xz --margins 10 15 20 30
"""

import argparse
from pathlib import Path

import numpy as np

from headway.data.files import open_text
from headway.data.languages import Passage
from headway.lab import language_survey
from headway.lab.language_survey import LanguageSurvey, survey_languages
from headway.lab.lookalikes import lookalikes
from headway.metrics.table import Table
from headway.text.scripts import script_of

WRONG = 0.01
SEED = 1


def read(path: Path) -> tuple[list[str], np.ndarray]:
    with open_text(path, "utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [text for _, _, text in rows], np.array([language for language, *_ in rows])


def wrong_labels(texts: list[str], labels: np.ndarray, is_near: bool) -> tuple[np.ndarray, np.ndarray]:
    """Labels some of which are wrong, and (N,) which ones."""
    random = np.random.default_rng(SEED)
    names, numbers = np.unique(labels, return_inverse=True)
    is_wrong = random.random(len(texts)) < WRONG
    if is_near:
        scripts = np.unique([script_of(text) for text in texts], return_inverse=True)[1]
        others = lookalikes(texts, numbers, scripts).labels
        is_wrong &= others >= 0
    else:
        others = (numbers + random.integers(1, len(names), len(texts))) % len(names)
    return np.where(is_wrong, names[others], labels), is_wrong


def lines_of(survey: LanguageSurvey) -> list[int]:
    pairs = (*survey.other_script, *survey.other_language)
    return [suspect.line for pair in pairs for suspect in pair.texts]


def measure(texts: list[str], labels: np.ndarray, is_near: bool) -> tuple[int, int, str, str]:
    given, is_wrong = wrong_labels(texts, labels, is_near)
    passages = [
        Passage(text, label, Path("texts"), row) for row, (text, label) in enumerate(zip(texts, given, strict=True))
    ]
    lines = lines_of(survey_languages(passages, "texts"))
    right = int(is_wrong[lines].sum())
    return int(is_wrong.sum()), len(lines), f"{right / len(lines):.3f}", f"{right / is_wrong.sum():.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--margins", type=float, nargs="+", default=[language_survey.MARGIN])
    given = parser.parse_args()
    texts, labels = read(given.file)
    names = np.random.default_rng(0).permutation(np.unique(labels))
    halves = {"chosen on": names[: len(names) // 2], "measured on": names[len(names) // 2 :]}
    rows = []
    for half, own in halves.items():
        chosen = np.flatnonzero(np.isin(labels, own))
        for is_near in (False, True):
            for language_survey.MARGIN in given.margins:
                counts = measure([texts[row] for row in chosen], labels[chosen], is_near)
                kind = "the most similar" if is_near else "any other"
                rows.append([half, kind, language_survey.MARGIN, len(chosen), *counts])
    print(Table(["languages", "wrong label", "margin", "texts", "wrong", "warnings", "precision", "recall"], rows))


if __name__ == "__main__":
    main()
