"""What there is in each language, and which texts look like another language or script than their label."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import headway as hw
from conftest import Outcome
from headway.config.errors import Problem
from headway.data.languages import Passage, alike_names
from headway.lab import language_survey
from headway.lab.language_survey import LanguageSurvey, survey_languages
from headway.lab.lookalikes import BACKGROUND, count_ngrams, lookalikes
from headway.lab.survey import Survey

Headway = Callable[..., Outcome]
WORDS = {
    "en": ("the", "house", "with", "through", "which", "thought", "children", "yellow", "morning", "water"),
    "de": ("das", "haus", "mit", "durch", "welches", "gedacht", "kinder", "gelb", "morgen", "zwischen"),
    "ru": ("этот", "дом", "вместе", "через", "который", "думал", "дети", "жёлтый", "утро", "вода"),
}


def sentences(language: str, count: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS[language], 6)) for _ in range(count)]


def survey_of(texts: Sequence[tuple[str, str]]) -> LanguageSurvey:
    """Of texts and their languages, a line each."""
    passages = [Passage(text, name, Path("texts.tsv"), line) for line, (text, name) in enumerate(texts, start=1)]
    return survey_languages(passages, "texts.tsv")


def all_three(count: int = 40) -> list[tuple[str, str]]:
    return [(text, name) for name in WORDS for text in sentences(name, count)]


def test_texts_characters_bytes_and_scripts_of_each_language() -> None:
    made = survey_of([("abc где", "x"), ("жук 日", "y"), ("日本", "y"), ("12", "y")])
    assert {name: (each.texts, each.characters, each.bytes) for name, each in made.languages.items()} == {
        "y": (3, 9, 2 * 3 + 1 + 3 + 6 + 2),
        "x": (1, 7, 10),
    }
    assert made.languages["x"].scripts == {"Latin": 1.0}  # the first, where two have as many letters
    assert made.languages["y"].scripts == {"Cyrillic": 0.5, "Han": 0.5}
    assert "Cyrillic 50.0%, Han 50.0%" in str(made.table())


def test_right_labels_give_no_warnings() -> None:
    assert survey_of(all_three()).warnings() == []


def test_a_wrong_label_is_found_with_its_line_and_what_it_looks_like() -> None:
    texts = all_three()
    texts[7] = (sentences("de", 1, seed=9)[0], "en")
    (pair,) = survey_of(texts).other_language
    assert (pair.labelled, pair.looks_like, pair.checked) == ("en", "de", 40)
    (suspect,) = pair.texts
    assert (suspect.file, suspect.line) == ("texts.tsv", 8)
    assert suspect.margin is not None
    assert suspect.margin > language_survey.MARGIN


def test_a_short_text_is_not_enough_to_tell() -> None:
    texts = [*all_three(), ("gelb", "en")]
    assert survey_of(texts).other_language == []


def test_numbers_say_nothing_about_the_language() -> None:
    with_number, without = count_ngrams(["Telefon 9876-5432", "Telefon -"]).toarray()
    assert with_number.tolist() == without.tolist()


def test_a_rare_script_is_a_warning_and_a_second_script_of_a_language_is_not() -> None:
    serbian = [("ovo je rečenica broj " + str(number), "sr") for number in range(30)]
    serbian += [("ово је реченица број " + str(number), "sr") for number in range(20)]
    texts = [*all_three(), *serbian]
    assert survey_of(texts).warnings() == []
    texts[3] = ("это написано кириллицей", "en")
    texts[4] = ("most of it is English, но не всё", "en")
    made = survey_of(texts)
    assert [(pair.labelled, pair.looks_like, [each.line for each in pair.texts]) for pair in made.other_script] == [
        ("en", "Cyrillic", [4])
    ]


def test_what_is_shown_of_a_text_is_as_wide_as_a_cell() -> None:
    most = language_survey.EXCERPT
    assert language_survey.beginning("a\n  b") == "a b"
    assert language_survey.beginning("a" * most) == "a" * most
    assert language_survey.beginning("a" * (most + 1)) == "a" * (most - 1) + "…"
    assert language_survey.beginning("日" * most) == "日" * (most // 2 - 1) + "…"


def test_japanese_without_kana_is_no_rare_script() -> None:
    japanese = [("これは日本の文です" + str(number), "ja") for number in range(50)]
    assert survey_of([*japanese, ("東京都千代田区", "ja")]).other_script == []


def test_a_language_of_which_many_texts_look_like_one_other_is_told_apart_from_wrong_labels() -> None:
    texts = [*all_three(), *((text, "xx") for text in sentences("de", 30) + sentences("en", 10, seed=5))]
    made = survey_of(texts)
    assert made.other_language == []
    assert [(pair.labelled, pair.looks_like, pair.checked) for pair in made.alike] == [("xx", "en", 40)]
    assert len(made.alike[0].texts) >= 8


def test_the_margin_is_that_of_naive_bayes_without_the_text_itself() -> None:
    """Worked out anew for each text, from all others."""
    texts = sentences("en", 12) + sentences("de", 12)
    labels = np.repeat([0, 1], 12)
    labels[3] = 1
    made = lookalikes(texts, labels, np.zeros(24, int))
    counts = count_ngrams(texts).toarray()
    background = BACKGROUND * counts.sum(axis=0) / counts.sum()
    for row in (0, 3, 20):
        scores = []
        for label in (0, 1):
            others = counts[(labels == label) & (np.arange(24) != row)].sum(axis=0)
            known = counts[row] > 0
            logs = np.log((1 - BACKGROUND) * others[known] / others.sum() + background[known])
            scores.append(float(counts[row][known] @ logs))
        assert made.margins[row] == pytest.approx(scores[1 - labels[row]] - scores[labels[row]], rel=1e-3)
    assert made.labels.tolist() == (1 - labels).tolist()


def test_labels_in_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text for name in WORDS for text in sentences(name, 12)]
    labels = np.repeat([0, 1, 2], 12)
    whole = lookalikes(texts, labels, np.zeros(36, int))
    monkeypatch.setattr("headway.lab.lookalikes.LABELS_AT_ONCE", 2)
    monkeypatch.setattr("headway.lab.lookalikes.TEXTS_AT_ONCE", 7)
    blocks = lookalikes(texts, labels, np.zeros(36, int))
    assert blocks.labels.tolist() == whole.labels.tolist()
    np.testing.assert_allclose(blocks.margins, whole.margins, rtol=1e-4)


def test_many_texts_are_sampled_evenly_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_survey, "MOST_LINES", 60)
    texts = [(text, "en") for text in sentences("en", 500)] + [(text, "de") for text in sentences("de", 20)]
    made = survey_of(texts)
    assert made.languages["en"].texts == 500
    assert (made.lines, made.checked) == (520, 60)
    assert any("of 60 of the 520 texts or lines, drawn at random" in note for note in made.notes())
    sample = language_survey.EvenSample(60)
    for line, (text, name) in enumerate(texts):
        sample.add(Passage(text, name, Path("texts.tsv"), line), line, text)
    lines = sample.lines()
    assert sum(line.passage.language == "de" for line in lines) == 20
    assert [line.number for line in lines] == sorted(line.number for line in lines)


def test_names_that_may_be_one_language() -> None:
    assert alike_names(["pt-BR", "pt_br", "pt", "zh"]) == [["pt-BR", "pt_br"]]
    made = survey_of([("um texto", "pt-BR"), ("outro texto", "pt_BR")])
    assert any("'pt-BR' and 'pt_BR' may be spellings of one language" in note for note in made.notes())
    with pytest.raises(Problem, match=r"texts\.tsv: 'EN' and 'en' are two spellings of one language"):
        survey_of([("a text", "EN"), ("a text", "en")])


# --- files


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def wrong(own_folder: Path) -> dict[str, list[str]]:
    """English and German lines, with a German line among the English ones."""
    lines = {name: sentences(name, 40) for name in ("en", "de")}
    lines["en"][11] = sentences("de", 1, seed=9)[0]
    return lines


def places(made: Survey) -> list[tuple[str, int]]:
    return [(each.file, each.line) for pair in made["languages"].other_language for each in pair.texts]


def test_lines_of_text_files_and_of_folders(wrong: dict[str, list[str]]) -> None:
    for name, lines in wrong.items():
        write_lines(Path(f"{name}.txt"), lines)
        write_lines(Path("texts", name, "1.txt"), lines[:20] if name == "en" else lines)
    write_lines(Path("texts", "en", "2.txt"), ["", *wrong["en"][20:]])
    by_file = {"data.language": "files"}
    made = hw.survey_data("en.txt,de.txt", settings=by_file)
    assert {name: each.texts for name, each in made["languages"].languages.items()} == {"de": 1, "en": 1}
    assert places(made) == [("en.txt", 12)]
    names = [write_lines(Path(f"{number:050}.txt"), wrong["de"][number : number + 1]).name for number in range(6)]
    many = hw.survey_data(Path(",".join(names)), settings=by_file)  # together they are too long for a name
    assert list(many["languages"].languages) != [""]
    in_folders = hw.survey_data("texts", recipe="language", settings=by_file)
    assert in_folders["languages"].languages["en"].texts == 2
    assert places(in_folders) == [("texts/en/1.txt", 12)]
    assert "texts/en/1.txt:12" in in_folders._repr_html_()


def test_pairs_of_a_translation(wrong: dict[str, list[str]]) -> None:
    for name, lines in wrong.items():
        write_lines(Path(f"train.{name}"), lines)
    made = hw.survey_data("train.en,train.de", recipe="translate")
    assert places(made) == [("train.en", 12)]
    with Path("pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("en", "de"), *zip(*wrong.values(), strict=True)])
    assert places(hw.survey_data("pairs.csv", recipe="translate")) == [("pairs.csv", 13)]
    many = hw.survey_data("train.en,train.de", recipe="translate", settings={"data.directions": "en-de"})
    assert places(many) == [("train.en", 12)]


@pytest.fixture
def rows(wrong: dict[str, list[str]]) -> Path:
    path = Path("rows.jsonl")
    rows = [{"text": text, "lang": name} for name, lines in wrong.items() for text in lines]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_command_line_shows_a_table_and_what_is_suspect(rows: Path, headway: Headway) -> None:
    shown = headway("data", str(rows), "data.language=lang")
    assert shown.code == 0
    assert "rows.jsonl: 80 texts" in shown.out
    assert "texts that look like another language than their label: 1" in shown.out
    assert "headway train language data.train=rows.jsonl data.language=lang" in shown.out
    assert "classes" not in shown.out  # the label is the language
    facts = json.loads(headway("data", str(rows), "data.language=lang", "--json").out)
    (pair,) = facts["languages"]["other_language"]
    assert (pair["labelled"], pair["looks_like"], pair["texts"][0]["line"]) == ("en", "de", 12)
    assert facts["languages"]["languages"]["de"]["scripts"] == {"Latin": 1.0}


def test_escapes_in_a_suspect_text_are_printed_as_such(rows: Path, headway: Headway) -> None:
    lines = rows.read_text(encoding="utf-8").splitlines()
    evil = json.dumps({"text": f"\x1b[31m{sentences('de', 1, seed=9)[0]}", "lang": "en"})
    rows.write_text("\n".join([evil, *lines[:11], *lines[12:]]) + "\n", encoding="utf-8")
    shown = headway("data", str(rows), "data.language=lang").out
    assert "\\x1b[31m" in shown
    assert "\x1b[31m" not in shown


def test_labels_and_languages_are_both_described(wrong: dict[str, list[str]]) -> None:
    texts = [text for lines in wrong.values() for text in lines]
    data = {"text": texts, "label": ["yes", "no"] * 40, "language": ["en"] * 40 + ["de"] * 40}
    made = hw.survey_data(data, settings={"data.language": "language"})
    assert made["classes"] == {"no": 40, "yes": 40}
    assert [pair.looks_like for pair in made["languages"].other_language] == ["de"]
    assert "texts that look like another language" in made._repr_html_()


def test_texts_without_labels_and_languages(own_folder: Path, headway: Headway) -> None:
    write_lines(own_folder / "plain.csv", ["text,page", *(f"{text},3" for text in sentences("en", 60)), "вода,1"])
    shown = headway("data", "plain.csv").out
    assert "no column is a label or a language: set data.label or data.language" in shown
    assert "Cyrillic" in shown
    assert "language  texts" not in shown
    outcome = headway("data", "plain.csv", "--recipe", "sft")
    assert outcome.code == 2
    assert "sft" in outcome.err
