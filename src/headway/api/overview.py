"""Recipes, their settings, models and data at a glance, before anything is trained."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway import recipes
from headway.api.model import Model
from headway.api.progress import reporter
from headway.api.settings import Settings, Source, clear_messages, source_of, texts_of
from headway.config.arguments import checked
from headway.lab import overview, preflight, survey
from headway.lab.language_survey import LanguageSurvey
from headway.lab.overview import LearningRates, Setting, Summary
from headway.lab.preflight import Finding
from headway.lab.survey import Survey
from headway.metrics.bleu import CorpusScore, corpus_scores
from headway.metrics.table import Listing
from headway.runs import run as runs
from headway.runs.pipeline import Reporter

__all__ = [
    "Finding",
    "LanguageSurvey",
    "LearningRates",
    "RecipeSummary",
    "Setting",
    "Summary",
    "Survey",
    "bleu",
    "check",
    "is_run",
    "list_recipes",
    "list_settings",
    "schedule",
    "summarize",
    "survey_data",
]


@dataclass(frozen=True)
class RecipeSummary:
    name: str
    task: str
    about: str


def list_recipes() -> Listing[RecipeSummary]:
    """The built-in recipes.

    >>> "parity" in [recipe.name for recipe in hw.list_recipes()]
    True
    """
    trees = {name: tomllib.loads(recipes.find(name).read_text(encoding="utf-8")) for name in recipes.names()}
    return Listing(RecipeSummary(name, tree["task"], tree["about"]) for name, tree in trees.items())


@checked
def list_settings(recipe: str | Path) -> Listing[Setting]:
    """All settings of a recipe: key, value, meaning and choices.

    >>> settings = {setting.key: setting.value for setting in hw.list_settings("parity")}
    >>> settings["model.width"], settings["data.length"]
    (32, 16)
    """
    return Listing(overview.settings(recipe))


@checked
def summarize(what: str | Path | runs.Run | Model, *, settings: Settings = ()) -> Summary:
    """The layers of a recipe's, a run's or a model's network: output shapes, parameters, FLOPs of a training step.

    >>> hw.summarize("parity", settings={"data.examples": 100}).parameters
    25666
    """
    if isinstance(what, Model):
        what = what.run
    if isinstance(what, runs.Run):
        what = what.folder
    with clear_messages():
        return overview.summarise(str(what), texts_of(settings))


@checked
def is_run(name: str | Path) -> bool:
    """Whether a name that may be a recipe or a run is a run.

    >>> hw.is_run(parity.run.folder), hw.is_run("parity")
    (True, False)
    """
    return overview.is_run(str(name))


@checked
def schedule(recipe: str | Path, *, settings: Settings = (), progress: bool | Reporter | None = None) -> LearningRates:
    """The learning rate of a recipe over its steps.

    >>> hw.schedule("parity", settings={"train.steps": 100}).total_steps
    100
    """
    with reporter(progress).reading() as show:
        return overview.learning_rates(str(recipe), texts_of(settings), show)


@checked
def survey_data(
    data: Source,
    *,
    recipe: str | Path | None = None,
    settings: Settings = (),
    quick: bool = False,
    progress: bool | Reporter | None = None,
) -> Survey:
    """Statistics of texts, from a file or from memory, as a ``recipe`` reads them (default: classify, or language for
    files without labels). Labelled texts: rows, classes, lengths and duplicates; and, unless ``quick``, labels that
    are probably wrong, held-out texts that are almost in the training data, and what a simple model reaches. With
    languages (``data.language``, or those of a translation): texts, characters, bytes and scripts of each, and which
    texts look like another language or script than their label.

    >>> reviews = [f"a good film {number}" for number in range(30)]
    >>> hw.survey_data((reviews, ["yes", "no"] * 15))["classes"]
    {'no': 15, 'yes': 15}
    >>> rows = {"text": reviews + ["хороший фильм"], "language": ["en"] * 30 + ["ru"]}
    >>> survey = hw.survey_data(rows, recipe="language", settings={"data.language": "language"})
    >>> survey["languages"].languages["ru"].scripts
    {'Cyrillic': 1.0}
    """
    with clear_messages(), reporter(progress).reading() as show:
        path = source_of(recipes.kind_of(recipe or "classify").columns, "train", data, {})
        return survey.survey(str(path), recipe, texts_of(settings), show, quick)


@checked
def check(
    recipe: str | Path, *, settings: Settings = (), found: Callable[[Finding], None] | None = None
) -> Listing[Finding]:
    """Check a recipe before training it: are there enough data, do all sequences fit the model, is the initial loss
    that of guessing, can it overfit one batch? ``found`` is called with each finding as it is made.

    >>> findings = hw.check("parity", settings={"data.length": 4, "data.examples": 200, "train.learning_rate": 0.01})
    >>> [finding.what for finding in findings]
    ['examples', 'classes', 'lengths', 'first loss', 'overfits a batch', 'time']
    """
    findings: Listing[Finding] = Listing()
    with clear_messages():
        for finding in preflight.check(recipes.load(recipe, texts_of(settings))):
            findings.append(finding)
            if found is not None:
                found(finding)
    return findings


@checked
def bleu(
    texts: Sequence[str],
    *references: Sequence[str],
    lower: bool = False,
    tokenize: str | None = None,
) -> Listing[CorpusScore]:
    """BLEU and chrF of translations against one or more sets of references, by sacrebleu. ``tokenize`` is one of its
    tokenizers: 13a, intl, zh, ja-mecab, char, none.

    >>> [round(score.score) for score in hw.bleu(["the cat sat on the mat"], ["the cat sat on the mat"])]
    [100, 100]
    """
    return Listing(corpus_scores(list(texts), [list(each) for each in references], lower, tokenize))
