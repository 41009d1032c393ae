"""Translation among many languages: directions, the token of the target language, splits, mixtures, what goes wrong."""

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Outcome, done
from headway import Run, recipes
from headway.config.errors import BadSetting
from headway.data.directions import Direction, directions_in
from headway.data.multiway_texts import connected
from headway.runs.fit import resume, start
from headway.text.spelling import FORMS

Headway = Callable[..., Outcome]
LANGUAGES = ("en", "de", "fr")
SMALL = ["model.layers=1", "model.width=16", "model.heads=2", "data.vocab_size=300", "data.max_length=12"]
QUICK = [*SMALL, "train.batch_size=32", "train.evaluate_every=3", "train.checkpoint_every=3", "data.beam=1"]
VIA_ENGLISH = "data.directions=*-en,en-*"


def write_files(folder: Path, name: str, numbers: list[int], languages: tuple[str, ...] = LANGUAGES) -> str:
    """Files of numbers in words, one for each language, as the setting has them."""
    paths = [folder / f"{name}.{language}" for language in languages]
    for path in paths:
        spell = FORMS[path.suffix[1:]]
        path.write_text("".join(f"{spell(number)}\n" for number in numbers), encoding="utf-8")
    return ",".join(map(str, paths))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def made(*overrides: str) -> Any:
    task = recipes.task("translate", [*SMALL, *overrides])
    task.prepare()
    return task


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("numbers")
    train = write_files(folder, "train", list(range(120)))
    return [f"data.train={train}", f"data.test={write_files(folder, 'test', [131, 145])}", "data.validation=0.1"]


# --- directions


def test_directions_are_written_as_people_write_them() -> None:
    names = ["en", "pt-BR", "de"]
    assert directions_in("en-pt-BR, pt-BR-en", names, "") == [("en", "pt-BR"), ("pt-BR", "en")]
    assert directions_in("*-en,en-de", names, "") == [("en", "de"), ("pt-BR", "en"), ("de", "en")]
    assert len(directions_in("*-*", names, "")) == 6
    with pytest.raises(BadSetting, match="'en-fr' is not a direction between two of en, pt-BR, de; did you mean 'en-"):
        directions_in("en-fr", names, "data.directions")
    with pytest.raises(BadSetting, match="'en-en' is from a language into itself"):
        directions_in("en-en", names, "data.directions")


def pairs_of(*overrides: str) -> set[tuple[str, str, str]]:
    """The training pairs: the direction, source and target."""
    task = made("data.validation=0.05", "data.max_length=40", *overrides)
    train, tokenizer = task.splits().train, task.tokenizer
    rows = {str(direction): own.tolist() for direction, own in train.rows_by_direction.items()}
    texts = [[tokenizer.decode(row) for row in side.lists()] for side in (train.source, train.target)]
    return {(name, texts[0][row], texts[1][row]) for name, own in rows.items() for row in own}


def test_rows_may_lack_a_language(tmp_path: Path) -> None:
    rows = [{"en": "a", "de": "b", "fr": "c"}, {"en": "d", "fr": "f"}, {"en": "g", "de": "", "fr": " "}]
    more = [{"en": f"x{number}", "de": f"y{number}", "fr": ""} for number in range(40)]
    path = write_rows(tmp_path / "a.jsonl", [*rows, *more])
    pairs = {each for each in pairs_of(f"data.train={path}", "data.columns=en,de,fr") if "x" not in "".join(each)}
    every = {("en-de", "a", "b"), ("en-fr", "a", "c"), ("de-en", "b", "a"), ("de-fr", "b", "c"), ("fr-en", "c", "a")}
    assert pairs == every | {("fr-de", "c", "b"), ("en-fr", "d", "f"), ("fr-en", "f", "d")}


def test_pairs_with_columns_for_their_languages_are_turned_round_on_demand(tmp_path: Path) -> None:
    rows = [{"source": f"x{n}", "target": f"y{n}", "from": "en", "to": "de" if n % 2 else "sw"} for n in range(80)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    settings = [f"data.train={path}", "data.languages=from,to", "data.columns=source,target"]
    assert {name for name, _, _ in pairs_of(*settings)} == {"en-de", "en-sw"}
    both = pairs_of(*settings, "data.directions=*-en,en-de")
    assert {name for name, _, _ in both} == {"en-de", "de-en", "sw-en"}
    assert all(
        (source[0], target[0]) == (("x", "y") if name == "en-de" else ("y", "x")) for name, source, target in both
    )
    one = write_rows(
        tmp_path / "b.jsonl", [{"en": row["source"], "text": row["target"], "to": row["to"]} for row in rows]
    )
    assert pairs_of(f"data.train={one}", "data.columns=en,text", "data.languages=to") <= pairs_of(*settings) | {
        (f"en-{row['to']}", row["source"], row["target"]) for row in rows
    }


def test_zero_shot_directions_are_not_trained_on_and_tested_apart(files: list[str]) -> None:
    task = made(*files, VIA_ENGLISH)
    splits = task.splits()
    trained = {("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en")}
    assert task.trained_directions() == trained == set(splits.train.rows_by_direction)
    assert {name: set(task.by_direction(data)) for name, data in splits.test.items()} == {
        "trained directions": trained,
        "zero-shot directions": {("de", "fr"), ("fr", "de")},
    }
    assert set(task.by_direction(splits.validation["validation"])) == trained
    assert {len(each) for data in splits.test.values() for each in task.by_direction(data).values()} == {2}
    (french,) = (
        each
        for direction, each in task.by_direction(splits.test["zero-shot directions"]).items()
        if direction[0] == "fr"
    )
    assert french.references == [FORMS["de"](number) for number in (131, 145)]
    named = made(*files, "data.zero_shot=de-fr,fr-de")
    assert named.trained_directions() == trained
    assert named.splits().test.keys() == splits.test.keys()
    assert made(*files).splits().test.keys() == {"test"}


def test_a_single_direction_is_the_one_of_two_files_with_a_token_in_front(files: list[str]) -> None:
    train, held_out = (words.partition("=")[2].split(",")[:2] for words in files[:2])
    plain = [f"data.source={train[0]}", f"data.target={train[1]}", f"data.validation={','.join(held_out)}"]
    plain.append("data.max_length=40")
    alone, tagged = (made(*plain, *more).splits().train for more in ([], ["data.directions=en-de"]))
    spec = recipes.task("translate", [*SMALL, *plain, "train.batch_tokens=none", "train.batch_size=16"]).recipe.train
    for step in (1, 2, 3):
        rows = alone.sampler(spec).rows_at(step)
        assert np.array_equal(rows, tagged.sampler(spec).rows_at(step))
        one, other = alone.batch(rows), tagged.batch(rows)
        assert torch.equal(one.targets, other.targets)
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.sources, other.sources[:, 1:])
    (token,) = set(other.sources[:, 0].tolist())
    assert token == len(made(*plain).tokenizer)


def test_the_tokens_of_languages_are_never_read_from_a_text_nor_written(files: list[str]) -> None:
    task = made(*files)
    tags = [task.tokenizer.vocabulary.index[f"<2{name}>"] for name in LANGUAGES]
    assert list(task.tags.values()) != []
    assert not set(task.tokenizer.encode(["<2de> one"])[0].tolist()) & set(tags)
    assert task.tokenizer.decode([*tags, *task.tokenizer.encode(["one"])[0]]) == "one"
    batch = task.splits().train.batch(np.arange(40))
    assert set(batch.sources[:, 0].tolist()) <= set(tags)
    assert not np.isin(batch.targets.numpy(), tags).any()
    assert not np.isin(batch.sources[:, 1:].numpy(), tags).any()


# --- splits


def test_sentences_that_are_connected_in_any_language_are_on_one_side(tmp_path: Path) -> None:
    """Pairs share texts with others, also in other languages and other spellings, and chains of them are one group."""
    random = np.random.default_rng(0)
    twins = [str.upper, str.title, lambda text: f"{text} "]
    rows = []
    for chain in range(60):
        texts = [f"t{chain} {n}" for n in range(random.integers(2, 6))]
        for a, b in pairwise(texts):
            x, y = random.choice(["en", "de", "fr"], 2, replace=False)
            rows.append({"source": a, "target": twins[int(random.integers(3))](b), "x": x, "y": y})
    path = write_rows(tmp_path / "a.jsonl", rows)
    task = made(f"data.train={path}", "data.languages=x,y", "data.test=0.2", "data.validation=0.1")
    chains = {}
    for use, mask in task.parts.items():
        pairs = list(task.train.pairs())
        chains[use] = {pairs[row].source.lower().split()[0] for row in np.flatnonzero(mask)}
    assert min(map(len, chains.values())) > 3
    assert not chains["train"] & chains["test"]
    assert not chains["train"] & chains["validation"]
    assert not any("also in the training data" in note for note in task.splits().notes)


def test_a_long_chain_of_connected_sentences_takes_no_longer_than_others() -> None:
    """Each line shares a text with the next one, such as the turns of a conversation."""
    texts = np.random.default_rng(0).integers(0, 2**63, 20_001, dtype=np.uint64)
    began = time.process_time()
    groups = connected(np.arange(20_000), np.stack([texts[:-1], texts[1:]], axis=1))
    assert (groups == texts.min()).all()
    assert time.process_time() - began < 3  # going on by one line at a time took 30 s
    assert connected(np.empty(0, np.int64), np.empty((0, 2), np.uint64)).shape == (0,)


def test_lines_in_several_languages_stay_together(files: list[str]) -> None:
    task = made(files[0], "data.test=0.2", "data.validation=0.1", "data.zero_shot=fr-de")
    pairs = list(task.train.pairs())
    lines = {use: {pairs[row].line for row in np.flatnonzero(mask)} for use, mask in task.parts.items()}
    assert not lines["train"] & lines["test"]
    assert not lines["train"] & lines["validation"]
    assert {len(data) for data in task.splits().test.values()} == {5 * len(lines["test"]), len(lines["test"])}


def test_a_test_text_that_is_trained_on_in_another_language_is_noted(tmp_path: Path) -> None:
    train = write_files(tmp_path, "train", list(range(40)))
    test = write_files(tmp_path, "test", [200, 7], ("de", "fr"))
    (note,) = (
        each
        for each in made(f"data.train={train}", f"data.test={test}", "data.directions=*-en,en-*").splits().notes
        if "also" in each
    )
    assert note == "2 texts of the test data are also in the training data, in one of the languages"


# --- mixtures


def test_directions_are_mixed_as_asked(tmp_path: Path) -> None:
    rows = [{"en": f"one {n}", "de": f"eins {n}" if n < 60 else "", "fr": f"un {n}"} for n in range(300)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    settings = [f"data.train={path}", "data.columns=en,de,fr", "data.directions=en-*", "train.steps=600"]
    task = made(*settings, "data.mixture=temperature(alpha=0.5)", "train.batch_size=16")
    plan = {str(each.direction): each for each in task.plan()}
    weights = {name: each.pairs**0.5 for name, each in plan.items()}
    for name, each in plan.items():
        assert each.share == pytest.approx(weights[name] / sum(weights.values()))
        assert each.epochs == pytest.approx(each.share * 600 * 16 / each.pairs)
    train = task.splits().train
    sampler = train.sampler(task.recipe.train)
    drawn = np.concatenate([sampler.rows_at(step) for step in range(1, 601)])
    names = np.array(train.languages.names)[train.languages.rows[drawn]]
    for name, each in plan.items():
        assert float((names == name).mean()) == pytest.approx(each.share, abs=0.005)
    plain = {str(each.direction): each.share for each in made(*settings).plan()}
    assert plain["en-fr"] / plain["en-de"] == pytest.approx(plan["en-fr"].pairs / plan["en-de"].pairs)


def test_resumed_is_uninterrupted_with_a_mixture(files: list[str], tmp_path: Path) -> None:
    recipe = recipes.task("translate", [*QUICK, *files, VIA_ENGLISH, "data.mixture=uniform", "train.steps=6"]).recipe
    whole = done(start(recipe, tmp_path / "whole"))
    part = start(recipe, tmp_path / "part")
    steps = part.steps()
    for step in steps:
        if step.number == 3:
            break
    steps.close()
    rest = done(resume(tmp_path / "part"))
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, rest.model.state_dict()[name]), name
    assert whole.run.results["directions"] == rest.run.results["directions"]


# --- a trained run


@pytest.fixture(scope="module")
def run(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    recipe = recipes.task("translate", [*QUICK, *files, VIA_ENGLISH, "train.steps=6"]).recipe
    return Run.of(done(start(recipe, tmp_path_factory.mktemp("run") / "many")).run)


def test_a_text_is_translated_into_the_language_that_is_named(run: Run, headway: Headway) -> None:
    model, texts = run.load(), ["one hundred", "two", "six hundred and three"]
    together = {name: model.beam_search(texts, num_beams=1, to=name) for name in LANGUAGES}
    for name, found in together.items():
        for text, (best,) in zip(texts, found, strict=True):  # alone = in a batch
            (alone,) = model.beam_search(text, num_beams=1, to=name)
            assert alone.text == best.text
            assert alone.log_probability == pytest.approx(best.log_probability, abs=1e-3)
            assert "<2" not in best.text
    assert len({found[0][0].log_probability for found in together.values()}) == 3
    outcome = headway("translate", str(run.folder), *texts, "--to", "fr", "--beam", "1")
    assert (
        outcome.out.split("\n")[:3]
        == [best.text for (best,) in together["fr"]]
        == model.translate(texts, to="fr", num_beams=1)
    )
    assert run.next_command[-2:] == ["--to", "de"] or run.next_command[-2] == "--to"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "RUN", "one"], "into which language? name one of"),
        (["translate", "RUN", "one", "--to", "ed"], "it does not translate into 'ed'; did you mean 'de'?"),
        (["align", "RUN", "one"], "into which language?"),
        (["beam", "RUN", "one"], "into which language?"),
        (["generate", "RUN", "one"], "headway translate"),
    ],
)
def test_the_language_has_to_be_named(run: Run, headway: Headway, words: list[str], message: str) -> None:
    outcome = headway(*(str(run.folder) if word == "RUN" else word for word in words))
    assert (outcome.code, message in outcome.err) == (2, True)


def test_one_target_language_need_not_be_named(run: Run, files: list[str], tmp_path: Path, headway: Headway) -> None:
    recipe = recipes.task("translate", [*QUICK, *files, "data.directions=*-en", "train.steps=1"]).recipe
    folder = str(done(start(recipe, tmp_path / "english")).run.folder)
    named, alone = headway("translate", folder, "deux", "--to", "en"), headway("translate", folder, "deux")
    assert named.out == alone.out
    assert Run(folder).next_command[-1] == "a text of your own"


def test_a_run_of_one_direction_has_no_language_to_choose(headway: Headway, files: list[str], tmp_path: Path) -> None:
    train = files[0].removeprefix("data.train=").split(",")
    pair = [f"data.source={train[0]}", f"data.target={train[1]}", "train.steps=1"]
    run = done(start(recipes.task("translate", [*QUICK, *pair]).recipe, tmp_path / "two")).run
    outcome = headway("translate", str(run.folder), "one", "--to", "de")
    assert (outcome.code, "leave out 'de'" in outcome.err) == (2, True)
    assert "directions" not in run.results


def test_alignments_and_beams_show_the_token_of_the_language(run: Run, headway: Headway, tmp_path: Path) -> None:
    alignment = run.load().align("one", to="fr")
    assert alignment.source[0] == "<2fr>"
    assert [sum(row) for row in alignment.weights] == pytest.approx([1.0] * len(alignment.target), abs=1e-5)
    assert headway("align", str(run.folder), "one", "--to", "fr", "--picture", str(tmp_path / "a.png")).code == 0
    assert headway("beam", str(run.folder), "one", "--to", "fr", "--width", "2", "--max-new-tokens", "3").code == 0


def test_scores_by_direction_are_those_of_each_direction_alone(run: Run, headway: Headway, tmp_path: Path) -> None:
    evaluations = run.evaluate()
    (matrix,) = evaluations.directions()
    assert matrix.languages == [*dict.fromkeys(name for each in run.task.measured for name in each)]  # type: ignore[attr-defined]
    task: Any = run.task
    for name, data in task.splits().test.items():
        for direction, own in task.by_direction(data).items():
            expected = task.measure(run.network, own) | task.test_metrics(run.network, own)
            assert matrix.scores[direction] == pytest.approx(expected, rel=1e-4), name
    assert matrix.trained == task.trained_directions()
    assert run.results["directions"].keys() == run.results["test"].keys() == evaluations.keys()
    outcome = headway("evaluate", str(run.folder), "--picture", str(tmp_path / "a.png"))
    assert "mean over zero-shot directions" in outcome.out
    assert (tmp_path / "a.png").exists()


def test_another_file_is_evaluated_by_direction(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "more.tsv"
    table.write_text(
        "fr\tde\n" + "".join(f"{FORMS['fr'](n)}\t{FORMS['de'](n)}\n" for n in (300, 400)), encoding="utf-8"
    )
    (evaluation,) = run.evaluate(table).values()
    rows = {(row["source"], row["target"]): row for row in evaluation.details["directions"]["scores"]}
    assert {direction: row["examples"] for direction, row in rows.items()} == {("de", "fr"): 2, ("fr", "de"): 2}
    assert not any(row["trained"] for row in rows.values())


def test_an_exported_run_says_which_token_is_which_language(run: Run, tmp_path: Path) -> None:
    run.load().export(tmp_path / "out", to="torch")
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert about["target_tokens"] == {name: f"<2{name}>" for name in run.task.targets}  # type: ignore[attr-defined]


def test_other_directions_can_be_trained_from_a_run(run: Run, files: list[str], tmp_path: Path) -> None:
    more = [*QUICK, *files, f"start={run.folder}", "train.steps=1"]
    task = recipes.task("translate", [*more, "data.directions=fr-de"])
    assert done(start(task.recipe, tmp_path / "more")).run.task.tags["de"] == run.task.tags["de"]  # type: ignore[attr-defined]


# --- what goes wrong


TABLE = "en\tde\tfr\none\teins\tun\ntwo\tzwei\tdeux\nthree\tdrei\ttrois\n"
PAIRS = "source\ttarget\tfrom\tto\na\tb\ten\tde\nc\td\ten\tsw\ne\tf\ten\tde\n"


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (TABLE, ["data.columns=en,de,es"], "no line has a text in 'es' and in another language: leave it out"),
        (
            TABLE.replace("\tun", "\t").replace("\tdeux", "\t").replace("\ttrois", "\t"),
            ["data.columns=en,de,fr"],
            "'fr'",
        ),
        (
            TABLE,
            ["data.columns=en,de,fr", "data.directions=en-da"],
            "'en-da' is not a direction between two of en, de, fr",
        ),
        (TABLE, ["data.columns=en,de,fr", "data.zero_shot=*-*"], "no direction is left to train on"),
        (TABLE, ["data.columns=en,de,fr", "data.directions=en-*", "data.zero_shot=de-fr"], "trained on is from 'de'"),
        (TABLE, ["data.columns=en,de,fr", "data.mixture=en-de=0.5,en-da=0.5"], "there are no texts in 'en-da'"),
        (TABLE, ["data.columns=en,de,fr", "data.directions=en-*", "data.mixture=en-de=0.5,en-fr=0.6"], "add up to 1.1"),
        (
            TABLE,
            ["data.columns=en,de,fr", "data.directions=en-*", "data.mixture=en-de=1,en-fr=0"],
            "en-fr has no share",
        ),
        (TABLE, ["data.columns=en,de,fr", "data.joint=false"], "share one vocabulary"),
        (TABLE, ["data.columns=en,de", "data.mixture=uniform"], "several directions of translation: there is one"),
        (TABLE, ["data.directions=en-de"], "name the columns of FILE that are languages"),
        (TABLE, ["data.columns=en,en,fr"], "'en' is there twice"),
        (TABLE.replace("fr", "EN"), ["data.columns=en,de,EN"], "two spellings of one language"),
        (TABLE, ["data.columns=en,de,fr", "data.languages=from,to,by"], "names one or two columns"),
        (PAIRS, ["data.languages=from,into"], "no column 'into'"),
        (
            PAIRS.replace("c\td\ten\tsw", "c\td\ten\ten"),
            ["data.languages=from,to"],
            "line 3: source and target are both in 'en'",
        ),
        (PAIRS.replace("c\td\ten\tsw", "c\td\ten\t"), ["data.languages=from,to"], "line 3: there is no 'to'"),
        (PAIRS.replace("sw", "DE"), ["data.languages=from,to"], "'de' and 'DE' are two spellings"),
        (PAIRS, ["data.languages=from,to", "data.directions=en-de,sw-de"], "has no pair of sw-de"),
        ("en\tde\tfr\none\t\t\n\tzwei\t\n", ["data.columns=en,de,fr"], "no line has texts in two languages"),
    ],
)
def test_what_is_wrong_with_the_data_is_said(
    tmp_path: Path, headway: Headway, content: str, settings: list[str], message: str
) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text(content, encoding="utf-8")
    outcome = headway("train", "translate", *SMALL, f"data.train={path}", "data.validation=0.3", *settings)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert message.replace("FILE", str(path)) in outcome.err


def test_what_is_wrong_with_files_is_said(tmp_path: Path, headway: Headway) -> None:
    train = write_files(tmp_path, "train", list(range(30)))
    (tmp_path / "train.fr").write_text("un\n", encoding="utf-8")
    assert "train.fr ends after line 1, but " in headway("train", "translate", f"data.train={train}").err
    write_files(tmp_path, "train", list(range(30)))
    test = f"{tmp_path}/train.en,{tmp_path}/train.fr"
    both = f"{tmp_path}/train.en,{tmp_path}/train.de"
    unknown = headway(
        "train", "translate", *SMALL, f"data.train={both}", "data.directions=en-de,de-en", f"data.test={test}"
    )
    assert "has no pair in any of en-de, de-en" in unknown.err


def test_a_language_with_one_sentence_is_trained_on_and_its_lack_of_tests_is_noted(tmp_path: Path) -> None:
    rows = [{"en": f"one {n}", "de": f"eins {n}", "sw": "moja" if n == 3 else ""} for n in range(60)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    task = made(
        f"data.train={path}", "data.columns=en,de,sw", "data.test=0.1", "data.validation=0.1", "data.directions=*-en"
    )
    assert Direction("sw", "en") in task.splits().train.rows_by_direction
    (note,) = (each for each in task.splits().notes if "without test pairs" in each)
    assert note.endswith("not measured: sw-en")


def test_rows_without_a_language_can_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS + "g\th\ten\t\ni\tj\tde\tde\n" + "k\tl\ten\tde\n" * 30, encoding="utf-8")
    task = made(f"data.train={path}", "data.languages=from,to", "data.bad_rows=skip", "data.validation=0.3")
    assert any("2 bad rows are skipped, the first on line 5" in note for note in task.splits().notes)
