"""The verb that aligns a model in stages: rlhf."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.output import console, draw, next_step, print_table
from headway.cli.progress import bars
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.lab.rlhf_study import Point
    from headway.runs.run import Run

SHOWN = 6  # answers before and after
BEST_OF = (1, 4, 16, 64)
STUDY = {  # other ways, as settings of the same recipe
    "beta 0.5": ("data.kl_penalty=fixed(beta=0.5)",),
    "beta 0.02": ("data.kl_penalty=fixed(beta=0.02)",),
    "beta 0.02, gamma 0.1": ("data.kl_penalty=fixed(beta=0.02)", "data.ptx_data=reviews", "data.ptx_coef=0.1"),
    "beta 0, pushed": ("data.kl_penalty=fixed(beta=0)", "train.steps=1200", "train.schedule=constant"),
    "grouped": ("data.advantage=grpo", "data.group_size=8", "data.vf_coef=0"),
}

DPO = ("train.learning_rate=5e-4", "train.epochs=3", "data.validation=0.1")


@click.command()
@click.argument("recipe")
@click.argument("settings", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="The folder of all stages; runs/RECIPE if left out.")
@click.option(
    "--study", is_flag=True, help="Then compare: other betas, a mix, groups, DPO, best of n; a table, a picture."
)
def rlhf(recipe: str, settings: tuple[str, ...], out: Path | None, study: bool) -> None:
    """Run all stages of a RECIPE of ppo in one folder: what it starts with, rankings, the reward model, the policy. A
    stage that is done is not done again, and one that was stopped goes on.

    \b
    Examples:
      headway rlhf rlhf-lab
      headway rlhf rlhf-lab train.steps=800 reward.train.epochs=2 --out runs/longer
      headway rlhf rlhf-lab --study
    """
    from headway import recipes
    from headway.cli.training import train_stages
    from headway.lab.rlhf_study import before_and_after, save_page, way
    from headway.runs.pipeline import RunFolders
    from headway.runs.run import Run

    task = recipes.load(recipe, recipes.split_overrides(settings, "reward.")[0]).task
    if task != "ppo":
        raise Problem(f"{recipe} is a recipe of {task}: rlhf is for those of ppo")
    folder = Path("runs") / Path(recipe).stem if out is None else out
    train_stages(recipe, settings, RunFolders(folder / "policy", folder))
    policy = Run(folder / "policy")
    pairs = before_and_after(policy, SHOWN, policy.recipe.data.max_new_tokens)
    console.print()
    print_table(["prompt", "before", "after"], pairs)
    save_page(folder / "answers.html", f"{recipe}: before and after", pairs)
    console.print(f"the same in {folder / 'answers.html'}")
    if study:
        compare(recipe, list(settings), folder, policy)
    else:
        draw_ways(folder, {"ppo": way(policy)})
    next_step("headway", "generate", folder / "policy", pairs[0].prompt)


def compare(recipe: str, settings: list[str], folder: Path, policy: "Run") -> None:
    from headway.cli.training import train_stages
    from headway.lab.rlhf_study import Bench, way
    from headway.runs.pipeline import RunFolders

    data = policy.recipe.data
    folders = RunFolders(folder / "study", folder / "study")
    own = [word for word in settings if not word.startswith(("start.", "reward."))]
    fixed = [f"start={policy.recipe.start}", f"data.reward={data.reward}"]
    runs = {"ppo": policy}
    for name, words in STUDY.items():
        out = folders.stage(name.replace(",", "").replace(" ", "-"))
        runs[name] = train_stages(recipe, [*own, *fixed, *words], out).run
    if (folder / "rankings.jsonl").is_file():
        alike = [
            f"data.template={data.template}",
            f"data.max_length={data.max_length}",
            f"train.seed={policy.recipe.train.seed}",
        ]
        ranked = [fixed[0], f"data.train={folder / 'rankings.jsonl'}", *alike, *DPO]
        runs["dpo"] = train_stages("dpo", ranked, folders.stage("dpo")).run
    bench = Bench.of(policy)
    with bars() as shown:
        best = bench.best_of(BEST_OF, shown)
    outcomes = [*best, *(bench.outcome(name, run) for name, run in runs.items())]
    console.print()
    print_table(
        ["", "kl", "reward", "judge", "perplexity", "seconds"],
        [(each.name, *each.point, each.perplexity, each.seconds) for each in outcomes],
    )
    points = {each.name: each.point for each in outcomes}
    ways = {"best of n": [each.point for each in best]}
    ways |= {name: way(run) or [points[name]] for name, run in runs.items()}
    draw_ways(folder, ways)


def draw_ways(folder: Path, ways: "dict[str, list[Point]]") -> None:
    from headway.lab.rlhf_study import save_ways

    if draw(lambda: save_ways(folder / "ways.png", ways)):
        console.print(f"reward and judge against the KL in {folder / 'ways.png'}")


VERBS = [rlhf]
