"""Settings and recipes: what is read is what was written, and mistakes are named."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest

from headway import recipes
from headway.config.errors import BadSetting, Problem, edits
from headway.config.parts import parse, part
from headway.config.settings import ELSEWHERE, put, read, rows, setting, to_toml
from headway.tasks import TASKS


@dataclass(frozen=True)
class Inner:
    size: int = setting(3, "how large", least=1)
    share: float | None = setting(0.5, "how much", least=0, below=1)
    loud: bool = setting(False, "whether")
    colour: str = setting("red", "which", choices=("red", "green"))


@dataclass(frozen=True)
class Outer:
    title: str = setting("", "what")
    inner: Inner = field(default_factory=Inner)


def test_values_are_read_from_text_and_from_toml_alike() -> None:
    as_text = {"title": "7", "inner": {"size": "5", "share": "none", "loud": "true"}}
    as_toml = {"title": "7", "inner": {"size": 5, "share": "none", "loud": True}}
    assert read(Outer, as_text) == read(Outer, as_toml) == Outer("7", Inner(5, None, True))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"titel": "x"}, "titel: no such key; did you mean 'title'?"),
        ({"inner": {"zise": 1}}, "inner.zise: no such key; did you mean 'inner.size'?"),
        ({"inner": 3}, "inner: is a section, not a value: 3"),
        ({"inner": {"size": "many"}}, "inner.size: 'many' is not a whole number"),
        ({"inner": {"size": 2.5}}, "inner.size: 2.5 is not a whole number"),
        ({"inner": {"size": True}}, "inner.size: True is not a whole number"),
        ({"inner": {"size": 0}}, "inner.size: 0 is too small: at least 1"),
        ({"inner": {"share": 1}}, "inner.share: 1.0 is too large: below 1"),
        ({"inner": {"share": "nan"}}, "inner.share: 'nan' is not a number"),
        ({"inner": {"share": [1]}}, "inner.share: [1] is not a number"),
        ({"inner": {"loud": "perhaps"}}, "inner.loud: 'perhaps' is not true or false"),
        ({"inner": {"colour": "gren"}}, "inner.colour: no such choice 'gren'; did you mean 'green'?"),
    ],
)
def test_what_does_not_fit_is_named(tree: dict[str, object], message: str) -> None:
    with pytest.raises(BadSetting) as error:
        read(Outer, tree)
    assert str(error.value) == message


def test_overrides_are_put_into_the_tree() -> None:
    tree: dict[str, object] = {"inner": {"size": 1}}
    assert put(tree, "inner.share=0.2") == "inner.share"
    put(tree, "title=a=b")
    assert tree == {"inner": {"size": 1, "share": "0.2"}, "title": "a=b"}
    for bad in ("steps", "=3", "a..b=3"):
        with pytest.raises(Problem, match="not of the form key=value"):
            put(tree, bad)


def test_parts_with_options() -> None:
    table: dict[str, Callable[..., Any]] = {
        "wave": lambda width, base=10.0: ("wave", width, base),
        "flat": lambda: "flat",
    }
    assert part(table, "wave", "model.shape", width=4, heads=2) == ("wave", 4, 10.0)
    assert part(table, "wave(base=2)", "model.shape", width=4) == ("wave", 4, 2)
    assert parse("wave(base=2, name='x')", "key") == ("wave", {"base": 2, "name": "x"})
    for text, message in {
        "wive": "model.shape: no such choice 'wive'; did you mean 'wave'?",
        "wave(bass=2)": "model.shape: 'wave' has no option 'bass'; did you mean 'base'?",
        "flat(x=1)": "model.shape: 'flat' has no option 'x'; it has none",
        "wave(2)": "model.shape: 'wave(2)' is neither a name nor a name with options such as 'name(option=1)'",
        "__import__('os')": "model.shape: \"__import__('os')\" is neither",
        "wave(base=open)": "model.shape: base=open is not a number, True, False, or a text in quotes",
    }.items():
        with pytest.raises(BadSetting) as error:
            part(table, text, "model.shape", width=4)
        assert str(error.value).startswith(message)


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_written_out_is_the_same_recipe(name: str, tmp_path: Path) -> None:
    recipe = recipes.load(name, ["train.grad_clip=none", "train.patience=3", "train.minutes=none"])
    path = tmp_path / "written.toml"
    path.write_text(to_toml(recipe))
    assert recipes.load(path) == recipe
    assert {row.key for row in rows(recipe)} >= {"model.width", "train.grad_clip"}


def test_every_setting_has_a_meaning() -> None:
    for name in recipes.names():
        assert [row.key for row in rows(recipes.load(name)) if not row.about] == []


def test_every_table_is_reached_by_a_key_of_the_recipe() -> None:
    keys = {row.key for name in recipes.names() for row in rows(recipes.load(name))}
    assert set(recipes.TABLES) <= keys


@pytest.mark.parametrize(("key", "name"), [(key, name) for key, table in recipes.TABLES.items() for name in table])
def test_every_entry_of_every_table_can_be_named(key: str, name: str) -> None:
    if key != "task":
        recipe = recipes.load("classify", [f"{key}={name}"])
        assert {row.key: row.value for row in rows(recipe)}[key] == name


@pytest.mark.parametrize(
    ("task", "key", "name"),
    [(task, key, name) for task in TASKS for key, table in TASKS[task].tables.items() for name in table],
)
def test_every_entry_of_the_tables_of_tasks_can_be_named(task: str, key: str, name: str) -> None:
    columns = {"numbers": [], "translate": ["data.directions=*-en"]}.get(task, ["data.language=language"])
    recipe = recipes.load(task, [f"{key}={name}", *(columns if "mixture" in key else [])])
    assert {row.key: row.value for row in rows(recipe)}[key] == name


def test_a_mistake_in_a_file_is_found_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('task = "parity"\n\n[model]\nwidth = 32\nposition = "rotry"\n[train]\nwidth = 3\n')
    with pytest.raises(Problem) as error:
        recipes.load(path)
    assert str(error.value).startswith(f"{path}, line 7: train.width: no such key")
    path.write_text('task = "parity"\n\n[model]\nwidth = 32\nposition = "rotry"\n')
    with pytest.raises(Problem) as error:
        recipes.load(path)
    assert str(error.value) == f"{path}, line 5: model.position: no such choice 'rotry'; did you mean 'rotary'?"
    with pytest.raises(Problem) as error:
        recipes.load(path, ["model.position=alibi", "model.heads=5"])
    assert str(error.value).startswith("model.heads: a width of 32 cannot be split into 5 heads")


@pytest.mark.parametrize(
    ("override", "message"),
    {
        "train.epochs=0": "0.0 is too small: more than 0",
        "train.seed=99999999999999999999": "too large: at most 4,294,967,295",
        "data.train=": "data.train: is empty",
        "start=": "start: is empty",
    }.items(),
)
def test_values_that_nobody_means_are_refused(override: str, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        recipes.load("classify", [override])


def test_typos_are_understood() -> None:
    """500 of them, each one letter inserted, removed, replaced or swapped: the right key in at least 95 %."""
    random = Random(0)
    keys = {each: [row.key for row in rows(recipes.load(each)) if "." in row.key] for each in ("classify", "ppo")}
    right = tried = 0
    while tried < 500:
        task = random.choice(list(keys))
        key = random.choice(keys[task])
        section, _, name = key.partition(".")
        if (wrong := f"{section}.{mistyped(name, random)}") in keys[task]:
            continue
        tried += 1
        with pytest.raises(BadSetting) as error:
            recipes.load(task, [f"{wrong}=1"])
        right += f"did you mean {key!r}?" in str(error.value)
    assert right >= 475


def mistyped(name: str, random: Random) -> str:
    place, letter = random.randrange(len(name) - 1), random.choice(ascii_lowercase)
    before, here, behind = name[:place], name[place], name[place + 1 :]
    swapped = before + behind[0] + here + behind[1:]
    changed = [before + behind, before + letter + here + behind, before + letter + behind, swapped]
    return random.choice([each for each in changed if each != name])


def test_swapped_letters_are_one_mistake() -> None:
    assert edits("haed", "head") == 1
    assert (edits("haed", "shared"), edits("", "ab"), edits("abc", "abc"), edits("ca", "abc")) == (2, 2, 0, 3)
    with pytest.raises(BadSetting, match=r"did you mean 'model.head'\?"):
        recipes.load("parity", ["model.haed=own"])


DEEP = ["-" * 5000 + "x", "a(b=" + "-" * 5000 + "1)", "(" * 5000, "a(b=" + "1+" * 3000 + "1)", "-" * 200_000, "a\0b"]


@pytest.mark.parametrize("text", [*DEEP, f"a(b=1{'0' * 5000})"], ids=lambda text: text[:8])
def test_a_part_that_is_deep_is_one_short_line(text: str) -> None:
    with pytest.raises(BadSetting, match="is neither a name nor a name with options") as error:
        parse(text, "model.shape")
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("number", ["1e999", "-1e999", "nan", "1+1"])
def test_a_number_of_a_part_is_finite(number: str) -> None:
    with pytest.raises(BadSetting, match="is not a number"):
        parse(f"rotary(base={number})", "model.position")


def test_text_that_toml_cannot_have_is_escaped_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "written.toml"
    path.write_text(to_toml(recipes.load("classify", ["data.text=a\x7f\x1b\x85b"])))
    assert recipes.load(path).data.text == "a\x7f\x1b\x85b"
    with pytest.raises(BadSetting, match="is not valid UTF-8"):
        recipes.load("classify", ["data.train=\udcff.csv"])


ELSEWHERES = {
    "lr": "train.learning_rate",
    "epochs": "train.epochs",
    "batch_size": "train.batch_size",
    "hidden_size": "model.width",
    "d_model": "model.width",
    "num_layers": "model.layers",
    "nhead": "model.heads",
    "dropout_rate": "model.dropout",
    "early_stopping_patience": "train.patience",
    "vocabulary_size": "data.vocab_size",
    "test_size": "data.test",
}


@pytest.mark.parametrize("section", ["", "train.", "model.", "data."])
@pytest.mark.parametrize("name", ELSEWHERES)
def test_the_names_of_other_libraries_are_known(name: str, section: str) -> None:
    key = f"{section}{name}"
    if key == ELSEWHERES[name]:
        return
    with pytest.raises(BadSetting) as error:
        recipes.load("classify", [f"{key}=1"])
    assert f"did you mean {ELSEWHERES[name]!r}?" in str(error.value)


@pytest.mark.parametrize("key", ELSEWHERE)
def test_a_suggestion_from_elsewhere_is_a_setting(key: str) -> None:
    known = {row.key for row in rows(recipes.load("classify"))}
    assert key.startswith("--") or key.partition("=")[0] in known
