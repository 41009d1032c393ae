"""Studies over several runs: compare variants, search for small ones, compare ways to adapt and to align a model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.api.model import Model
from headway.api.progress import reporter
from headway.api.settings import Settings, Source, clear_messages, overrides_of, own, text_of, texts_of
from headway.config.arguments import at_least, checked
from headway.config.errors import Problem
from headway.lab import adapt as adapting
from headway.lab import compare as comparing
from headway.lab import mixture, rlhf_study, taming
from headway.lab.adapt import Adaptation
from headway.lab.beam_tree import BeamSearch, search_tree
from headway.lab.comparison import Comparison
from headway.lab.gradients import GradientReach
from headway.lab.gradients import gradient_reach as measure_reach
from headway.lab.mixture import MixturePlan
from headway.lab.rlhf_study import RlhfResult
from headway.lab.search import Search, SearchResult
from headway.lab.taming import FAILED_BELOW, Taming
from headway.runs.pipeline import Reporter
from headway.runs.run import Run, free_folder

__all__ = [
    "FAILED_BELOW",
    "Adaptation",
    "BeamSearch",
    "Comparison",
    "GradientReach",
    "MixturePlan",
    "RlhfResult",
    "SearchResult",
    "Taming",
    "adapt",
    "compare",
    "gradient_reach",
    "plan_mixture",
    "rlhf",
    "search",
    "search_written_tree",
    "tame",
]

Axes = Mapping[str, Sequence[Any]] | Sequence[str]  # {"model.norm": ["pre", "post"]} or ["model.norm=pre,post"]


def axes_of(axes: Axes) -> list[str]:
    """Settings to vary as ``key=value,value``."""
    if not isinstance(axes, Mapping):
        return own(list(axes))
    listed = []
    for key, values in axes.items():
        texts = [text_of(key, value).partition("=")[2] for value in values]
        listed.append(f"{key}={','.join(texts)}")
    return own(listed)


def folder_of(out: str | Path | None, name: str) -> Path:
    return free_folder(name) if out is None else Path(out)


@checked
def compare(
    recipe: str | Path | Sequence[str | Path],
    *,
    vary: Axes = (),
    seeds: int = 3,
    budget: str | None = None,
    reach: float | None = None,
    baselines: bool = False,
    data: Any = None,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Comparison:
    """Compare recipes, or variants of a recipe, over several seeds: means with 95 % confidence intervals, and curves.

    With the same seed, all variants see the same data in the same order. ``budget`` holds all of them to the same
    "epochs=3", "steps=500", "minutes=2" or "flops=1e13"; ``reach`` reports how long each took to this validation score.
    ``baselines`` adds a row for each simple model (see ``baseline``), and intervals over the test items.

    >>> small = {"data.examples": 100, "data.tests": 20, "train.steps": 2, "model.width": 8, "model.heads": 2}
    >>> study = hw.compare("parity", vary={"model.norm": ["pre", "post"]}, seeds=1, settings=small)
    >>> [row.variant for row in study.rows]
    ['norm=pre', 'norm=post']
    """
    names = [str(recipe)] if isinstance(recipe, str | Path) else [str(each) for each in recipe]
    if not names:
        raise Problem("there is no recipe to compare: name one")
    at_least(1, seeds=seeds)
    folder = folder_of(out, "compare-" + "-".join(Path(name).stem for name in names))
    overrides = overrides_of(names[0], data, settings=settings)
    with clear_messages():
        return comparing.compare(
            names, overrides, axes_of(vary), seeds, folder, reporter(progress, True), budget, reach, baselines
        )


@checked
def search(
    recipe: str | Path,
    *,
    goal: str = "accuracy>0.95",
    over: Axes = (),
    trials: int = 60,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> SearchResult:
    """Find the smallest network that reaches a goal on the validation data, and confirm it on the test data. The search
    is over layers, width, heads, hidden width and learning rate, unless settings fix them, and over other axes.

    >>> fixed = {"data.length": 4, "data.examples": 50, "data.tests": 20, "train.steps": 2}
    >>> result = hw.search("parity", goal="accuracy>0.1", trials=1, settings=fixed)
    >>> len(result.front)
    1
    """
    at_least(1, trials=trials)
    study = Search(str(recipe), texts_of(settings), goal, axes_of(over), folder_of(out, f"search-{Path(recipe).stem}"))
    return study.carry_out(trials, reporter(progress, True).say)


@checked
def adapt(
    run: str | Path | Run | Model,
    data: Source,
    *,
    test: Any = None,
    examples: Sequence[int] = (8, 32, 128, 512),
    shots: Sequence[int] = (0, 1, 2, 4, 8, 16, 32),
    tests: int = 500,
    words: Sequence[str] = (),
    seeds: int = 3,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Adaptation:
    """Compare fine-tuning, a linear probe and prompting of a pre-trained run, with growing numbers of labelled
    examples. ``words`` spell the labels in prompts, in their order.

    >>> reviews = [f"the {thing} was {word} ." for thing in ("plot", "music", "cast") for word in ("good", "bad")] * 8
    >>> reviews = [f"{text} {number}" for number, text in enumerate(reviews)]
    >>> few = {"examples": [8], "shots": [], "seeds": 1, "settings": {"train.steps": 2, "data.test": 0.2}}
    >>> [point.way for point in hw.adapt(masked, (reviews, ["yes", "no"] * 24), **few).points]
    ['fine-tuning', 'linear probe']
    """
    at_least(1, seeds=seeds)
    folder = folder_of(out, "adapt")
    own = run.run if isinstance(run, Model) else run
    overrides = [*overrides_of(adapting.RECIPE, data, test=test), *texts_of(settings)]
    with clear_messages():
        study = adapting.Study(
            own if isinstance(own, Run) else Run(own),
            tuple(overrides),
            tuple(sorted(set(examples))),
            tuple(sorted(set(shots))),
            seeds,
            tests,
            tuple(words),
            folder,
        )
        return study.carry_out(reporter(progress, True))


@checked
def plan_mixture(
    files: str | Path | Sequence[str | Path] | Mapping[str, float],
    *,
    tokens: float | None = None,
    mixtures: Sequence[str] = (),
    language: str = "language",
    text: str | None = None,
    progress: bool | Reporter | None = None,
) -> MixturePlan:
    """What share of training each language gets by several rules, and how often its text is read. ``files`` are texts
    with a column ``language``, whose sizes are counted in bytes; or a TOML file of sizes; or a dict of sizes.

    >>> plan = hw.plan_mixture({"en": 1e9, "sw": 1e7}, tokens=1e9, mixtures=["proportional", "uniform"])
    >>> [round(share, 3) for share in plan.shares["proportional"]], plan.epochs["uniform"]
    ([0.99, 0.01], [0.5, 50.0])
    """
    rules = list(mixtures) or list(mixture.USUAL)
    if isinstance(files, Mapping):
        return mixture.plan([mixture.group_of(name, size, "sizes") for name, size in files.items()], rules, tokens)
    paths = [Path(each) for each in ([files] if isinstance(files, str | Path) else files)]
    if len(paths) == 1 and paths[0].suffix == ".toml":
        return mixture.plan(mixture.sizes_in(paths[0]), rules, tokens)
    with reporter(progress).reading() as show:
        return mixture.plan(mixture.sizes_of_texts(paths, language, text, show), rules, tokens)


@checked
def tame(
    *,
    seeds: int = 3,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Taming:
    """What makes deep Transformers train? Compares norms, warm-ups and optimizers on twelve layers; ``settings`` change
    the recipe taming for all of them.

    >>> small = {"data.examples": 60, "data.tests": 20, "train.steps": 2, "model.layers": 2, "model.width": 8}
    >>> len(hw.tame(seeds=1, settings=small).comparison.rows)
    6
    """
    at_least(1, seeds=seeds)
    return taming.tame(texts_of(settings), seeds, folder_of(out, "taming"), reporter(progress, True))


@checked
def rlhf(
    recipe: str | Path = "rlhf-lab",
    *,
    study: bool = False,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> RlhfResult:
    """Run all stages of a PPO recipe in one folder: the start, rankings, the reward model, the policy. Stages that are
    done are skipped. ``study`` also compares other KL penalties, a pre-training mix, GRPO, DPO and best-of-n.

    >>> hw.rlhf("parity")
    Traceback (most recent call last):
    ...
    headway.config.errors.Problem: parity is a recipe of parity, which has no stages: use headway train parity
    """
    folder = Path("runs") / Path(recipe).stem if out is None else Path(out)
    return rlhf_study.run_stages(str(recipe), texts_of(settings), folder, study, reporter(progress))


@checked
def gradient_reach(
    names: str | Path | Sequence[str | Path], *, length: int | None = None, picture: str | Path = "gradients.png"
) -> GradientReach:
    """How far back gradients reach, in trained runs or in recipes with their initial weights: the norm of the
    derivative of the last state with respect to the embedding of the token k positions before it.

    >>> list(hw.gradient_reach(parity.run.folder, length=8).norms.values())[0][0] > 0
    True
    """
    at_least(1, length=length)
    listed = [names] if isinstance(names, str | Path) else names
    return measure_reach([str(name) for name in listed], length, Path(picture))


@checked
def search_written_tree(
    path: str | Path,
    *,
    widths: Sequence[int] = (1, 2),
    best: int = 1,
    length_penalty: float = 1.0,
    groups: int = 1,
    diversity: float = 0.0,
) -> list[BeamSearch]:
    """Beam searches in a tree of probabilities that is written by hand, as JSON.

    >>> _ = Path("exam.json").write_text('{"a": [0.6, {"c": 0.5, "d": 0.5}], "b": [0.4, {"e": 1.0}]}')
    >>> [search.best[0].log_probability > -1 for search in hw.search_written_tree("exam.json", widths=[1, 2])]
    [False, True]
    """
    options = {"best": best, "length_penalty": length_penalty, "groups": groups, "diversity": diversity}
    return search_tree(Path(path), widths, **options)
