"""Studies of training on: what a run gains and forgets in other languages, and how often a text may be repeated."""

from collections.abc import Sequence
from pathlib import Path

from headway.api.model import Model
from headway.api.progress import reporter
from headway.api.settings import Settings, Source, clear_messages, overrides_of, texts_of
from headway.api.studies import folder_of
from headway.config.arguments import at_least, checked
from headway.lab import forgetting as forgetting_study
from headway.lab import repeating
from headway.lab.forgetting_report import Forgetting
from headway.lab.repeating import Repeating
from headway.runs.pipeline import Reporter
from headway.runs.run import RECIPE, Run

__all__ = ["Forgetting", "Repeating", "forgetting", "repeat"]


@checked
def forgetting(
    run: str | Path | Run | Model,
    data: Source | None = None,
    *,
    replay: Sequence[float] = forgetting_study.USUAL,
    seeds: int = 1,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Forgetting:
    """What a language model gains and forgets when it goes on with other languages: it is trained further with several
    shares of ``replay`` for the languages that it knows, beside a new one with the same number of tokens. ``data`` are
    texts in old and new languages; ``settings`` change the run's own recipe.

    >>> words = {"en": "the old house", "nl": "het oude huis", "ru": "старый дом и сад"}
    >>> texts = [f"{words[name]} {number}" for name in words for number in range(30)]
    >>> both = {"text": texts, "language": [name for name in words for _ in range(30)]}
    >>> old = {"text": both["text"][:60], "language": both["language"][:60]}
    >>> small = {"model.width": 8, "model.layers": 1, "train.steps": 2, "data.validation": 0.2, "data.window": 8}
    >>> start = hw.train("language", data=old, settings={**small, "data.language": "language"}, out="old")
    >>> study = hw.forgetting(start, both, replay=[0.1], settings={"train.steps": 4, "data.extend_vocabulary": 9})
    >>> [row.language for row in study.rows if row.is_new]
    ['ru', 'mean over new languages']
    """
    at_least(1, seeds=seeds)
    own = run.run if isinstance(run, Model) else run if isinstance(run, Run) else Run(run)
    overrides = [*overrides_of(own.folder / RECIPE, data), *texts_of(settings)]
    with clear_messages():
        study = forgetting_study.Study(own, tuple(overrides), tuple(replay), seeds, folder_of(out, "forgetting"))
        return study.carry_out(reporter(progress, True))


@checked
def repeat(
    recipe: str | Path,
    data: Source | None = None,
    *,
    passes: Sequence[int] = repeating.USUAL,
    seeds: int = 3,
    settings: Settings = (),
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> Repeating:
    """How often a text may be repeated: the same number of tokens in training, over so many passes of less text.

    >>> texts = [f"{number} and {number + 1} and so on" for number in range(400)]
    >>> small = {"model.width": 8, "model.layers": 1, "train.steps": 8, "data.window": 8}
    >>> study = hw.repeat("language", texts, passes=[1, 4], seeds=1, settings=small)
    >>> [row.passes for row in study.rows]
    [1, 4]
    """
    at_least(1, seeds=seeds)
    overrides = [*overrides_of(recipe, data), *texts_of(settings)]
    with clear_messages():
        return repeating.repeat(
            str(recipe),
            overrides,
            passes,
            seeds,
            folder_of(out, f"repeat-{Path(recipe).stem}"),
            reporter(progress, True),
        )
