"""learn and its subcommands."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.options import AT_LEAST_1, FILE, OutFile, seed_option
from headway.cli.render import Block, Output, Table, prints
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.learn.exercise import Exercise, Report
    from headway.learn.folder import Folder

HERE, DEFAULT = Path("."), Path("learn")
folder_option = click.option("--dir", "folder", type=FILE, help="Folder of exercises; default: this one, or learn.")
id_argument = click.argument("exercise_id", metavar="ID")


@click.group(invoke_without_command=True)
@click.pass_context
def learn(ctx: click.Context) -> int:
    """Learn by doing: exercises that are cut from the library itself, and check themselves.

    Alone, it watches the exercise that is next: save its file, and it is checked again; one key for everything else.

    \b
    Examples:
      headway learn
      headway learn init learn
      headway learn list
      headway learn check attn.multihead
      headway learn hint attn.multihead
    """
    if ctx.invoked_subcommand is None:
        from headway.cli.learn_watch import watch

        return watch()
    return 0


def folder_of(given: Path | None) -> "Folder":
    from headway.learn.folder import Folder

    return Folder.open(given or (HERE if Folder.is_one(HERE) else DEFAULT))


def exercise_in(folder: "Folder", name: str) -> "Exercise":
    from headway.learn.catalogue import exercise

    found = exercise(name)
    if name not in folder.progress.exercises:
        raise Problem(
            f"{folder.path} has no exercise {name}: add it with headway learn init {folder.path} --only {name}"
        )
    return found


@learn.command("init")
@click.argument("folder", type=FILE, metavar="DIR", default=DEFAULT)
@click.option("--only", multiple=True, metavar="ID", help="Exercise or track to write; repeatable; default: all.")
@seed_option("Random seed: the numbers of the exercises.")
@prints
def init(folder: Path, only: tuple[str, ...], seed: int) -> Output:
    """Write the exercises into DIR, a file each. Files that are there already stay as they are.

    \b
    Examples:
      headway learn init learn
      headway learn init attention --only attn
    """
    from headway.learn.catalogue import chosen
    from headway.learn.folder import Folder, Progress

    made = Folder.create(folder, chosen(only), Progress(seed=seed))
    first = made.exercises[0]
    data = {"folder": folder, "exercises": made.progress.exercises}
    blocks: list[Block] = [f"{len(made.exercises)} exercises in {folder}; the first is {made.file(first)}"]
    return Output(data, blocks, ["headway", "learn", "check", first.id, *where(made)])


def where(folder: "Folder") -> list[object]:
    """The option to write, if the folder is another one than the usual one."""
    return [] if folder.path in (HERE, DEFAULT) else ["--dir", folder.path]


@learn.command("check")
@id_argument
@folder_option
@click.option("--picture", type=OutFile(), help="Draw yours, the target and the difference, or losses: .png or .html.")
@prints
def check(exercise_id: str, folder: Path | None, picture: Path | None) -> Output:
    """Check the exercise ID against the library. Exit code 1: it is not solved yet.

    The file runs in a process of its own, with limits of time, memory and output. Exercises that train show their
    progress, and train again only if the settings have changed.

    \b
    Examples:
      headway learn check attn.multihead
      headway learn check attn.multihead --picture multihead.png
    """
    from headway.learn.picturing import check_name, save_picture

    check_name(picture)
    place = folder_of(folder)
    exercise = exercise_in(place, exercise_id)
    report = place.check(exercise, show_training)
    if picture is not None:
        save_picture(exercise, report, picture)
    following = next(place.open_exercises(), None)
    go_on: list[object] = (
        ["hint", exercise_id] if not report.passed else ["check", following.id] if following else ["list"]
    )
    command = ["headway", "learn", *go_on, *where(place)]
    return Output(as_data(report), report_blocks(place, exercise, report), command, exit_code=int(not report.passed))


def show_training(what: str, share: float) -> None:
    """A live line in a terminal, which is gone at the end."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" if share >= 1 else f"\r{what} {share:4.0%}")
        sys.stderr.flush()


def as_data(report: "Report") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(report) | {"passed": report.passed}


def report_blocks(place: "Folder", exercise: "Exercise", report: "Report") -> Iterator[Block]:
    from headway.learn.showing import progress_bar, shown

    bar = progress_bar(len(place.progress.solved), len(place.exercises))
    yield f"{exercise.id}: {exercise.title}   {bar}"
    yield from shown(report)
    yield str(place.file(exercise))


@learn.command("hint")
@id_argument
@folder_option
@prints
def hint(exercise_id: str, folder: Path | None) -> Output:
    """The next of three hints for the exercise ID: a question, a direction, the line.

    \b
    Example:
      headway learn hint attn.multihead
    """
    place = folder_of(folder)
    number, text = place.hint(exercise_in(place, exercise_id))
    return Output(
        {"exercise": exercise_id, "level": number, "hint": text},
        [f"hint {number} of {place.progress.hint_levels}: {text}"],
    )


@learn.command("hunt")
@click.argument("paper", metavar="encoder|loop|decoding|rlhf")
@click.option("--bugs", type=AT_LEAST_1, help="How many are planted; default: 8 in the encoder, 6 in the loop, else 5.")
@seed_option("Random seed: another paper, as hard as this one.")
@click.option("--dir", "folder", type=FILE, default=Path("hunts"), show_default=True, help="Where its file is.")
@prints
def hunt(paper: str, bugs: int | None, seed: int, folder: Path) -> Output:
    """Write code with planted bugs; and once it is there, check what has been found and mended.

    Mend each bug, and mark its line with a comment: # BUG: why. There are points for bugs that are mended and for lines
    that are marked; false alarms cost as much.

    \b
    Examples:
      headway learn hunt encoder --bugs 8 --seed 5
      headway learn hunt loop --seed 2
    """
    from headway.learn.hunting import Hunt, default_bugs
    from headway.learn.showing import shown

    wanted = Hunt(paper, bugs or default_bugs(paper), seed)
    path = folder / wanted.file
    again = ["headway", "learn", "hunt", paper, "--bugs", wanted.bugs, "--seed", seed]
    again += ["--dir", folder] * (folder != Path("hunts"))
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted.text(), encoding="utf-8")
        return Output(
            {"file": path, "bugs": wanted.bugs}, [f"{wanted.bugs} bugs are in {path}: mend and mark them"], again
        )
    report = wanted.check(path)
    score = f"{report.score:.0%} of the points"
    blocks = [*shown(report), score, str(path)]
    return Output(as_data(report), blocks, [] if report.passed else again, exit_code=int(not report.passed))


@learn.command("list")
@folder_option
@prints
def list_exercises(folder: Path | None) -> Output:
    """All exercises, and which of them are solved.

    \b
    Example:
      headway learn list
    """
    from headway.learn.catalogue import exercises
    from headway.learn.folder import Folder

    has_folder = folder is not None or Folder.is_one(HERE) or Folder.is_one(DEFAULT)
    place = folder_of(folder) if has_folder else None
    listed = place.exercises if place else list(exercises().values())
    solved = set(place.progress.solved) if place else set()
    rows = [(each.id, each.kind, each.title, "solved" if each.id in solved else "") for each in listed]
    data = [{"id": name, "kind": kind, "title": title, "solved": bool(done)} for name, kind, title, done in rows]
    return Output(data, [Table(["exercise", "kind", "title", ""], rows)])


@learn.command("solution")
@id_argument
@folder_option
@prints
def solution(exercise_id: str, folder: Path | None) -> Output:
    """The solution of the exercise ID, once it is solved or all hints have been read.

    \b
    Example:
      headway learn solution attn.multihead
    """
    place = folder_of(folder)
    text = place.solution(exercise_in(place, exercise_id))
    return Output({"exercise": exercise_id, "solution": text}, [text])


@learn.command("reset")
@id_argument
@folder_option
@prints
def reset(exercise_id: str, folder: Path | None) -> Output:
    """Bring the file of the exercise ID back to its beginning.

    \b
    Example:
      headway learn reset attn.multihead
    """
    place = folder_of(folder)
    exercise = exercise_in(place, exercise_id)
    place.reset(exercise)
    return Output({"exercise": exercise_id, "file": place.file(exercise)}, [f"{place.file(exercise)} is as it was"])


@learn.command("selfcheck")
@click.argument("names", nargs=-1, metavar="[ID]...")
@prints
def selfcheck(names: tuple[str, ...]) -> Output:
    """Check the exercises themselves: unsolved they fail, solved they pass, every mistake is named. Takes a minute.

    \b
    Example:
      headway learn selfcheck attn
    """
    from headway.learn.catalogue import chosen, exercise
    from headway.learn.selfcheck import problems

    found = {name: list(problems(exercise(name))) for name in chosen(names)}
    bad = {name: texts for name, texts in found.items() if texts}
    lines = [f"{name}: {text}" for name, texts in bad.items() for text in texts]
    return Output(
        found, [*lines, f"{len(found) - len(bad)} of {len(found)} exercises are right"], exit_code=int(bool(bad))
    )
