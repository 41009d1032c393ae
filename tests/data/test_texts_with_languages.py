"""Languages of texts: read from a column, from the names of files and folders; refused if they are not clear."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conftest import Outcome
from headway.config.errors import Problem
from headway.data.corpus import Corpus, Joined
from headway.data.examples import Reading
from headway.data.languages import FILES, Languages, language_of_file, refuse_spellings
from headway.data.readers import Format
from headway.data.splitting import cut
from headway.metrics.languages import ALL, THIRDS, language_means


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("en.txt", "en"),
        ("en.txt.gz", "en"),
        ("train.de", "de"),
        ("train.de.jsonl.xz", "de"),
        ("sw/a.txt", "sw"),
        ("sw/old/b.txt", "sw"),
        ("english", "english"),
    ],
)
def test_languages_of_files(name: str, language: str) -> None:
    assert language_of_file(Path(name)) == language


def languages_in(corpus: Corpus) -> list[str]:
    index = corpus.index
    return [index.language_names[number] for number in index.rows["language"]]


def write_rows(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_column_files_and_folders_say_the_language(tmp_path: Path) -> None:
    rows = [{"text": f"text {number}", "lang": "en" if number % 3 else "sw"} for number in range(9)]
    by_column = Corpus(write_rows(tmp_path / "all.jsonl", rows), Reading(language="lang", has_labels=False))
    assert languages_in(by_column) == [row["lang"] for row in rows]
    by_file = Reading(language=FILES, has_labels=False, format=Format(whole=True))
    for name in ("en.txt", "de.txt"):
        (tmp_path / name).write_text(f"a text of {name}\n", encoding="utf-8")
    joined = Joined([Corpus(tmp_path / name, by_file) for name in ("en.txt", "de.txt")])
    assert list(dict.fromkeys(languages_in(joined))) == ["en", "de"]
    for folder in ("fi", "sw"):
        (tmp_path / "texts" / folder).mkdir(parents=True)
        for number in range(2):
            (tmp_path / "texts" / folder / f"{number}.txt").write_text(f"{folder} {number}\n", encoding="utf-8")
    in_folders = languages_in(Corpus(tmp_path / "texts", by_file))
    assert list(dict.fromkeys(in_folders)) == ["fi", "sw"]
    assert in_folders == sorted(in_folders)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a", "lang": ""}, "line 2: there is no 'lang'"),
        ({"text": "a"}, "line 2: there is no 'lang'"),
        ({"text": "a", "lang": "EN"}, "'EN' and 'en' are two spellings of one language"),
    ],
)
def test_rows_whose_language_is_not_clear(row: dict[str, str], message: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "texts.jsonl", [{"text": "b", "lang": "en"}, row])
    with pytest.raises(Problem, match=message) as error:
        _ = Corpus(path, Reading(language="lang", has_labels=False)).index
    assert str(path) in str(error.value)


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "texts.jsonl", [{"text": "b", "lang": "en"}])
    with pytest.raises(Problem, match=r"data\.language.*no column 'langg'.*did you mean 'lang'"):
        _ = Corpus(path, Reading(language="langg", has_labels=False)).index


def test_spellings_may_differ_in_more_than_case() -> None:
    refuse_spellings(["en", "en-GB", "de"], "here")
    with pytest.raises(Problem, match="'Deutsch' and 'DEUTSCH'"):
        refuse_spellings(["en", "Deutsch", "DEUTSCH"], "here")


def test_each_language_is_split_by_itself() -> None:
    random = np.random.default_rng(0)
    groups = random.integers(1 << 60, size=1300).astype(np.uint64)
    languages = Languages(["en", "de", "sw"], random.permutation(np.repeat([0, 1, 2], [1000, 280, 20])))
    validation, test, train = cut(groups, [0.1, 0.05], languages)
    assert (validation.astype(int) + test + train == 1).all()
    for language, size in enumerate((1000, 280, 20)):
        own = languages.rows == language
        assert validation[own].sum() == pytest.approx(0.1 * size, abs=1)
        assert test[own].sum() == pytest.approx(0.05 * size, abs=1)


def test_a_text_that_two_languages_share_is_on_one_side() -> None:
    groups = np.array([*range(100), *range(50, 150)], np.uint64)
    languages = Languages(["en", "sw"], np.repeat([0, 1], 100))
    held_out, train = cut(groups, [0.3], languages)
    assert not set(groups[held_out].tolist()) & set(groups[train].tolist())


def test_means_count_each_language_once() -> None:
    rows = {name: {"loss": float(place), "examples": 10.0} for place, name in enumerate("abcdefg")}
    sizes = {name: 100.0 - place for place, name in enumerate("abcdefg")}
    means = language_means(rows, sizes)
    assert means[ALL] == {"loss": 3.0, "examples": 70.0}
    assert [means[third] for third in THIRDS] == [
        {"loss": 0.5, "examples": 20.0},
        {"loss": 3.0, "examples": 30.0},
        {"loss": 5.5, "examples": 20.0},
    ]
    assert list(language_means(dict(list(rows.items())[:5]), sizes)) == [ALL]


def test_headway_mixture_plans_on_paper(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    """490 languages of 30,000 sentences and 10 of a billion."""
    (tmp_path / "sizes.toml").write_text(
        "large = {languages = 10, size = 1e9}\nsmall = {languages = 490, size = 3e4}\n"
    )
    words = (
        "mixture",
        "sizes.toml",
        "--tokens",
        "1e10",
        "--mixture",
        "temperature(alpha=0.3)",
        "--mixture",
        "unimax(epochs=4)",
    )
    outcome = headway(*words, "--json")
    assert outcome.code == 0, outcome.err
    values = json.loads(outcome.out)
    large, small = 1e9**0.3, 3e4**0.3
    assert values["shares"]["temperature(alpha=0.3)"] == pytest.approx(
        [large / (10 * large + 490 * small), small / (10 * large + 490 * small)]
    )
    assert values["epochs"]["unimax(epochs=4)"] == pytest.approx([(1e10 - 490 * 4 * 3e4) / 10 / 1e9, 4])
