"""The command line: ``headway VERB``. Verbs import what they need when they run, so that ``--help`` is quick."""

import atexit
import gc
import shlex
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from headway import __version__
from headway.cli import (
    adapt,
    attention,
    baseline,
    beam,
    check,
    compare,
    data,
    evaluate,
    exchange,
    explain,
    fill,
    forgetting,
    generate,
    gradients,
    learn_class,
    mixture,
    plan,
    predict,
    recipes,
    repeating,
    rlhf,
    runs,
    search,
    tokenizer,
    tour,
    train,
    translate,
    vectors,
)
from headway.cli.render import echo, print_next
from headway.config import signals
from headway.config.errors import Interrupted, Problem, RenamedSetting, visible
from headway.config.imports import Untrusted
from headway.config.recipe import ModelSpec, TrainSpec

SECTIONS: dict[str, list[click.Command]] = {  # as --help lists them
    "Train": [
        *(tour.tour, recipes.recipes, recipes.show, recipes.schedule, data.data, check.check, plan.plan),
        *(train.train, train.resume, train.pretrain, baseline.baseline, runs.runs),
    ],
    "Use": [
        *(evaluate.evaluate, predict.predict, generate.generate, generate.ask, fill.fill),
        *(translate.translate, translate.bleu),
    ],
    "Many languages": [
        *(mixture.mixture, tokenizer.tokenizer, forgetting.forgetting, repeating.repeat),
    ],
    "Look inside": [explain.explain, attention.attention, gradients.gradients, beam.beam, translate.align],
    "Compare": [compare.compare, compare.taming, search.search, adapt.adapt],
    "Exchange": [exchange.import_model, exchange.export],
    "Learn from preferences": [rlhf.rlhf, rlhf.reward],
    "Learn": [learn_class.learn],
    "Word vectors": [vectors.vectors, vectors.ngrams, vectors.senses],
}


class Verbs(click.Group):
    """Lists its verbs by what they are for, and says how to go on with a run that a signal stopped."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Interrupted as stop:
            echo(f"stopped at step {stop.step:,} and saved")
            print_next("headway", "resume", stop.folder)
            return 128 + stop.signal

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(len(name) for name in self.commands)
        room = formatter.width - longest - 6
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{verb.name:<{longest}}", verb.get_short_help_str(room)) for verb in verbs])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="headway %(version)s")
def app() -> None:
    """A workshop for sequence models: build one from small parts, train it, compare variants, look inside.

    \b
    First steps:
      headway tour                                     puzzles, reviews, Python, numbers: in four minutes
      headway recipes                                  what can be trained
      headway train parity model.width=16              a recipe, with a setting changed
      headway train classify data.train=reviews.csv    a classifier for your own labelled texts
      headway train language data.train=novels.txt     a language model of your own texts
      headway train translate data.source=a.en data.target=a.de    a translator from parallel texts
      headway pretrain data.train=texts.jsonl          pre-training on unlabelled texts
    """


for section in SECTIONS.values():
    for command in section:
        app.add_command(command)


def main() -> None:
    """Run a verb. An error that the user can fix is one line on standard error, without a traceback."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    warnings.showwarning = partial(show_warning, warnings.showwarning)
    atexit.register(gc.freeze)  # else the interpreter ends with a walk through all of torch's objects: 0.2 s
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except Untrusted as refused:
        allowed = shlex.join(["headway", *sys.argv[1:], "--trust", refused.function])
        fail(f"{refused.key}: {refused.rule}: {allowed}", refused.exit_code)
    except Problem as problem:
        fail(str(problem), problem.exit_code)
    except click.NoSuchOption as error:
        fail(f"{error.format_message()}{setting_hint(error.option_name)} (headway VERB --help lists the options)", 2)
    except click.ClickException as error:
        fail(f"{error.format_message()} (headway --help lists the verbs, headway VERB --help their options)", 2)
    except (click.Abort, KeyboardInterrupt):  # click turns Ctrl-C into Abort
        signals.exit_stopped()
    except OSError as error:
        fail(str(error), 2)
    except (MemoryError, RuntimeError) as error:
        if not is_about_memory(error):
            raise
        fail("out of memory: make the model, its window or the batch smaller", 2)


def setting_hint(option: str) -> str:
    """``--steps`` is a setting, ``train.steps=...``."""
    name = option.lstrip("-").replace("-", "_")
    sections = {"model": ModelSpec(), "train": TrainSpec()}
    keys = [f"{section}.{name}" for section, settings in sections.items() if name in vars(settings)]
    return f" Settings are written as key=value: {keys[0]}=..." if keys else ""


def show_warning(usual: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """One line, without a file name and a line number; what numpy and torch have to say of numbers is for developers,
    and what matters of it has a message of its own."""
    if category is RenamedSetting:
        echo(f"headway: note: {message}", err=True)
    elif category is not RuntimeWarning:
        usual(visible(str(message)), category, *where)


def is_about_memory(error: Exception) -> bool:
    """torch has its own exception for this on a GPU only."""
    signs = ("allocate memory", "out of memory", "size calculation overflowed")
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in signs)


def fail(message: str, code: int) -> None:
    line = " ".join(message.split())
    echo(f"headway: {line}", err=True)
    sys.exit(code)
