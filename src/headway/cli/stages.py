"""Recipes that need others: each is trained first, as a run of its own, in the order in which they need each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from headway import recipes
from headway.cli.output import console
from headway.cli.progress import bars
from headway.cli.training import follow
from headway.config.errors import BadSetting, Problem, named_with
from headway.config.recipe import Recipe
from headway.config.settings import rows
from headway.lab.labelling import Ranking, write_rankings
from headway.runs.fit import Session, resume, start
from headway.runs.run import Run
from headway.tasks import TASKS
from headway.tasks.rlhf.reward_model import Reward

REWARD = "reward."  # before words that are about the recipe of a reward


@dataclass(frozen=True)
class Places:
    """Where runs are put: beside the last one, or all in one folder. There, what was begun before is gone on with."""

    own: Path | None = None
    folder: Path | None = None

    def of(self, stage: str) -> "Places":
        if self.folder is not None:
            return Places(self.folder / stage, self.folder)
        return self if self.own is None else Places(self.own.with_name(f"{self.own.name}-{stage}"))

    def rankings(self, recipe: Recipe) -> Path:
        if self.folder is not None:
            return self.folder / "rankings.jsonl"
        place = self.own or Path("runs") / recipe.name
        names = (place.with_name(f"{place.name}-{number}.jsonl") for number in count(1))
        return next(name for name in names if not name.exists())  # an older run stands on an older file

    @property
    def begun(self) -> Path | None:
        """The run that is there already."""
        there = self.folder is not None and self.own is not None and (self.own / "recipe.toml").is_file()
        return self.own if there else None


def train_stages(recipe: str, settings: Sequence[str], places: Places) -> Session:
    """What a recipe begins with, what its answers are judged by, and the recipe itself."""
    own, of_start = recipes.apart(settings)
    own, of_reward = recipes.apart(own, REWARD)
    loaded = recipes.load(recipe, [*own, *(recipes.START + word for word in of_start)])
    reward = getattr(loaded.data, "reward", None)
    if recipes.is_recipe(reward):
        with named_with(REWARD):
            recipes.load(reward, of_reward)  # better now than when the first stage has been trained
    elif of_reward:
        raise BadSetting(REWARD + of_reward[0], "there is no recipe of a reward")
    if recipes.is_recipe(loaded.start):
        if loaded.train.processes > 1:  # each of them would run this command from the top
            raise Problem(f"with several processes, train {loaded.start} first, and name its run with start=RUN")
        TASKS[loaded.task](loaded).look()
        own.append(f"start={train_stages(loaded.start, of_start, places.of('start')).run.folder}")
        loaded = recipes.load(recipe, own)
    if recipes.is_recipe(reward):
        words = [*of_reward, f"start={loaded.start}"]
        own.append(f"data.reward={train_stages(reward, words, places.of('reward')).run.folder}")
    own += rank_answers(loaded, places)
    wanted, begun = recipes.load(recipe, own), places.begun
    if begun is not None:
        refuse_others(Run(begun), wanted)
    with bars() as shown:
        session = resume(begun, shown) if begun else start(wanted, places.own, shown)
    follow(session)
    return session


def refuse_others(begun: Run, wanted: Recipe) -> None:
    """A run that is gone on with keeps its settings."""
    there = {row.key: row.value for row in rows(begun.recipe)}
    for row in rows(wanted):
        if there.get(row.key) != row.value:
            asked = f"this asks for {row.key}={row.value}"
            raise Problem(f"{begun.folder} has {row.key}={there.get(row.key)}, and {asked}: take another --out for it")


def rank_answers(recipe: Recipe, places: Places) -> list[str]:
    """If answers are to be ranked that the start writes, they are written beside the run; what is to be set then."""
    data, task = recipe.data, TASKS[recipe.task](recipe)
    if not isinstance(task, Reward) or not getattr(data, "judge", None):
        return []
    path = places.rankings(recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    how = Ranking(data.answers, data.answer, data.noise, recipe.train.seed)
    with bars() as shown:
        prompts = write_rankings(str(recipe.start), task.files["train"].path, data.judge, path, how, shown)
    console.print(f"{prompts:,} prompts with {data.answers} answers each, ranked, in {path}")
    return [f"data.train={path}", "data.judge=none"]
