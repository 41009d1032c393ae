"""What teachers use: release, grade and exam."""

from pathlib import Path

import click

from headway.cli.learn import learn as learn
from headway.cli.options import FILE, OutFile, seed_option
from headway.cli.render import Block, Output, Table, console, prints


@learn.command("release")
@click.argument("folder", type=FILE, metavar="DIR")
@click.option("--only", multiple=True, metavar="ID", help="Exercise or track to write; repeatable; default: all.")
@click.option("--hints", default=2, show_default=True, type=click.IntRange(0, 3), help="How many hints may be read.")
@seed_option("Random seed: the numbers of the exercises.")
@prints
def release(folder: Path, only: tuple[str, ...], hints: int, seed: int) -> Output:
    """Write chosen exercises into DIR to hand out: without solutions, and with as many hints as you like.

    \b
    Example:
      headway learn release handout --only attn --only rlhf.ppo --hints 1 --seed 12
    """
    from headway.learn.catalogue import chosen
    from headway.learn.folder import Folder, Progress

    made = Folder.create(folder, chosen(only), Progress(seed=seed, hint_levels=hints, solutions=False))
    data = {"folder": folder, "exercises": made.progress.exercises}
    return Output(data, [f"{len(made.exercises)} exercises in {folder}, {hints} hints each, no solutions"])


@learn.command("grade")
@click.argument("folders", nargs=-1, required=True, type=FILE, metavar="DIR...")
@click.option("--save", "files", multiple=True, type=OutFile(), help="File to write: .csv, .json or .html; repeatable.")
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1, 64), help="Processes that grade.")
@seed_option("Your own random seed for checking functions, which learners do not know.")
@prints
def grade(folders: tuple[Path, ...], files: tuple[Path, ...], workers: int, seed: int) -> Output:
    """Grade submissions: folders of exercises, or a folder of such folders.

    Each check runs in a process of its own, with limits of time, memory and output. Questions in words have the
    marks that learners gave themselves: the page (--save grades.html) lists the answers side by side. Exercises that
    train are trained again, from the settings that were handed in and with the learner's own seed.

    \b
    Example:
      headway learn grade submissions --seed 4711 --save grades.csv --save grades.html
    """
    import json

    from headway.learn.grading import check_names, grade, graded_folders, save

    check_names(files)
    found = list(graded_folders(folders))
    grades = grade(found, seed, lambda name: console.print(f"graded {name}"), workers)
    for file in files:
        save(grades, file)
    totals = Table(["learner", "total"], [(name, f"{grades.total(name):.1%}") for name in grades.learners])
    shares = sorted(grades.shares(), key=lambda share: share.held / share.total)
    hardest = [(share.exercise, share.name, f"{share.held} of {share.total}") for share in shares[:10]]
    blocks: list[Block] = [totals, "\nwhat fewest have right", Table(["exercise", "property", "holds for"], hardest)]
    if grades.mistakes():
        blocks += ["\nmistakes", Table(["mistake", "made by"], list(grades.mistakes().items())[:10])]
    return Output(json.loads(grades.to_json()), blocks, notes=grades.notes)


@learn.command("exam")
@click.option("--minutes", default=90, show_default=True, type=click.IntRange(1, 600), help="How long it takes.")
@click.option("--out", type=OutFile(), default=Path("exam.html"), show_default=True, help="Page to write.")
@click.option("--pdf", is_flag=True, help="Print both pages as PDF, too, with a browser of this machine.")
@seed_option("Random seed: another paper, as hard as this one.")
@prints
def exam(minutes: int, out: Path, pdf: bool, seed: int) -> Output:
    """Draw a whole paper from all tracks, as a page to print, and its solution with a marking scheme.

    \b
    Example:
      headway learn exam --seed 7 --minutes 90
    """
    from headway.learn.exams import draw, save
    from headway.learn.pages import print_pdf

    drawn = draw(seed, minutes)
    pages = list(save(drawn, out))
    if pdf:
        for source in list(pages):
            print_pdf(source, source.with_suffix(".pdf"))
            pages.append(source.with_suffix(".pdf"))
    rows = [(each.id, each.kind, each.title) for each in drawn.chosen]
    data = {"pages": pages, "points": drawn.points, "exercises": [each.id for each in drawn.chosen]}
    text = f"{drawn.points} points in {minutes} minutes: {', '.join(str(path) for path in pages)}"
    return Output(data, [Table(["exercise", "kind", "title"], rows), text])
