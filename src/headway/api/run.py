"""A run: a folder with a recipe, its checkpoints and its results."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headway.api.progress import reporter
from headway.api.settings import Settings, Source, Trust, clear_messages, texts_of
from headway.config import imports
from headway.config.arguments import checked, checked_methods
from headway.config.errors import Problem
from headway.lab.confusions import plot_confusions
from headway.lab.direction_matrix import DirectionMatrix, direction_matrices, plot_matrices
from headway.lab.plot import Plot, plot_rewards
from headway.metrics.table import Listing, Metrics
from headway.nn.attention import Attention
from headway.runs import fit as fitting
from headway.runs import run as runs
from headway.runs.pipeline import Reporter, carry_out
from headway.tasks import Task, abilities
from headway.tasks.abilities import can, need
from headway.tasks.tagging.predictions import Tags
from headway.tasks.task import Evaluation
from headway.training.metrics_log import METRICS, flatten, read_records

if TYPE_CHECKING:
    from headway.api.model import Model


METHODS: dict[str, type[abilities.Ability]] = {  # methods of a model, and the ability that its task needs
    "predict": abilities.Predicts,
    "probabilities": abilities.Predicts,
    "explain": abilities.Predicts,
    "embed": abilities.Embeds,
    "attention": abilities.Embeds,
    "generate": abilities.Generates,
    "stream": abilities.Generates,
    "beam_search": abilities.Generates,
    "ask": abilities.Generates,
    "translate": abilities.Translates,
    "align": abilities.Translates,
    "fill": abilities.Fills,
    "rate": abilities.RanksAnswers,
    "vectors": abilities.HasWordVectors,
}


TRIED: tuple[type[abilities.Ability], ...] = (  # the first that a task has is how its runs are tried
    abilities.Pretrains,
    abilities.Translates,
    abilities.RanksAnswers,
    abilities.HasWordVectors,
    abilities.Generates,
    abilities.Predicts,
    Tags,
)


def has_attention(task: Task) -> bool:
    """At no cost: tensors on the meta device have a shape and no data."""
    with torch.device("meta"):
        return any(isinstance(part, Attention) for part in task.model().modules())


class Evaluations(dict[str, Evaluation]):
    """Evaluations by data set: ``evaluations["test"]["accuracy"]``; a notebook shows them as a table."""

    @property
    def metrics(self) -> Metrics:
        return Metrics({name: each.metrics for name, each in self.items()})

    def directions(self, metric: str | None = None) -> list[DirectionMatrix]:
        """Of a translator with several directions: the matrix of their scores, in ``metric`` or in the usual one. Test
        sets that have a direction in common have a matrix each."""
        reports = {name: each.details["directions"] for name, each in self.items() if "directions" in each.details}
        return direction_matrices(reports, metric)

    def plot(self) -> Plot:
        """The scores by direction of a translator, the confusions of a classifier, or the rewards of a reward model."""
        if matrices := self.directions():
            return plot_matrices(matrices)
        confused = {name: each.details for name, each in self.items() if "confusion" in each.details}
        return plot_confusions(confused) if confused else self.plot_rewards()

    def plot_rewards(self) -> Plot:
        """Of a reward model: the distribution of its rewards, and its calibration."""
        if not all("rewards" in each.details for each in self.values()):
            raise Problem("only evaluations of classifiers, reward models and translators can be plotted")
        return plot_rewards({name: each.details for name, each in self.items()})

    def _repr_html_(self) -> str:
        return self.metrics._repr_html_() + "".join(each._repr_html_() for each in self.directions())


@checked_methods
class Run(runs.Run):
    """A run folder, such as ``runs/parity-1``: its recipe, results, weights and history.

    >>> run = hw.Run(parity.run.folder)
    >>> run.recipe.task, run.is_done
    ('parity', True)
    """

    def __init__(self, folder: str | Path):
        super().__init__(folder)

    def __repr__(self) -> str:
        return f"<Run {self.folder}: {self.recipe.task}>"

    @classmethod
    def of(cls, run: runs.Run | str | Path) -> "Run":
        """The same run with all that can be asked of it; what it has read already is not read again."""
        if isinstance(run, Run):
            return run
        if not isinstance(run, runs.Run):
            return cls(run)
        own = cls.__new__(cls)
        own.__dict__ = run.__dict__
        return own

    @property
    def abilities(self) -> list[str]:
        """The methods that work for the trained model.

        >>> "predict" in hw.Run(parity.run.folder).abilities
        True
        """
        barred = {"generate", "stream", "ask"} if can(self.task, abilities.Translates) else set()
        barred |= set() if has_attention(self.task) else {"attention"}
        own = ["predict"] if can(self.task, Tags) else []
        return own + [name for name, ability in METHODS.items() if can(self.task, ability) and name not in barred]

    @property
    def next_command(self) -> list[str]:
        """The command that tries the trained run on an example.

        >>> parity.run.next_command[:2]
        ['headway', 'predict']
        """
        ability = next(each for each in TRIED if can(self.task, each))
        words = {"RUN": str(self.folder), **dict.fromkeys(("TEXT", "PROMPT", "WORD"), self.task.example)}
        words |= {"ANSWER": "an answer", "start=RUN": f"start={self.folder}"}
        targets = need(self.task, abilities.Translates).targets if ability is abilities.Translates else ()
        into = ["--to", targets[0]] if len(targets) > 1 else []
        return ["headway", *(words.get(word, word) for word in ability.verb.split()), *into]

    def load(self) -> "Model":
        """The trained model.

        >>> hw.Run(parity.run.folder).load().predict("0110").label in ("even", "odd")
        True
        """
        from headway.api.model import Model

        return Model(self)

    def resume(self, *, settings: Settings = (), trust: Trust = (), progress: bool | Reporter | None = None) -> "Model":
        """Train from the newest checkpoint to the end, exactly as if the run had never been stopped. ``settings`` may
        say where (train.parallel, processes, nodes, device, threads), until when (train.steps, epochs, minutes,
        patience; a run that is done then goes on) and how often it logs. ``trust`` names the Python functions that may
        run for it, such as its reward "my_module:my_function".

        >>> hw.Run(parity.run.folder).resume().run.is_done  # there is nothing left to do
        True
        """
        from headway.api.model import Model

        imports.trust(trust)
        shown = reporter(progress)
        with clear_messages():
            with shown.reading() as show:
                fit = fitting.resume(self.folder, show, texts_of(settings))
            carry_out(fit, shown)
        return Model(Run.of(fit.run))

    def evaluate(self, data: Source | None = None, *, settings: Settings = (), trust: Trust = ()) -> Evaluations:
        """The metrics on each test set, or on other data; see Model.evaluate.

        >>> sorted(hw.Run(parity.run.folder).evaluate())
        ['random', 'uniform']
        """
        return self.load().evaluate(data, settings=settings, trust=trust)

    def history(self) -> Listing[dict[str, Any]]:
        """What was logged while it trained, one dict per record, such as ``{"step": 20, "train/loss": 0.69, ...}``.

        >>> parity.run.history()[-1]["step"]
        6
        """
        return Listing(dict(flatten(record)) for record in read_records(self.folder / METRICS))

    def plot(self) -> Plot:
        """The loss, and the metric that models are selected by, over the steps.

        >>> parity.run.plot().save("curves.png")
        """
        metric = self.task.validation_metrics()[-1]
        plot = Plot((10, 4), 1, 2)
        loss, score = plot.axes[0]
        history = self.history()
        for key in dict.fromkeys(key for record in history for key in record):
            points = [(record["step"], record[key]) for record in history if key in record]
            use, _, name = key.partition("/")
            side = loss if name.endswith("loss") else score if name.endswith(f"/{metric}") else None
            if side is not None and use in ("train", "validation"):
                own = name.rpartition("/")[0]  # of the data set
                side.plot(*zip(*points, strict=True), label=use if own in ("", use) else f"{use} {own}")
        for axes, title in ((loss, "loss"), (score, metric)):
            axes.set(xlabel="step", title=title)
            axes.grid(alpha=0.3)
            if axes.lines:
                axes.legend()
        return plot

    def _repr_html_(self) -> str:
        return Listing([self.summary()])._repr_html_()


@checked
def list_runs(folder: str | Path = "runs") -> Listing[Run]:
    """The runs in a folder and its subfolders, oldest first.

    >>> "parity-1" in [run.folder.name for run in hw.list_runs(parity.run.folder.parent)]
    True
    """
    return RunListing(Run.of(run) for run in runs.all_runs(Path(folder)))


class RunListing(Listing[Run]):
    def _repr_html_(self) -> str:
        return Listing(run.summary() for run in self)._repr_html_()
