"""The command line: ``headway VERB``. Verbs import what they need when they run, so that ``--help`` is quick."""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from headway import __version__
from headway.cli import (
    adapting,
    aligning,
    answering,
    asking,
    comparing,
    exchanging,
    looking,
    pretraining,
    reading,
    searching,
    senses,
    studies,
    tour,
    training,
    translating,
    vectors,
    writing,
)
from headway.config.errors import Problem, RenamedSetting


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="headway %(version)s")
def app() -> None:
    """A workshop for sequence models: build one from small parts, train it, compare variants, look inside.

    \b
    First steps:
      headway tour                                     puzzles, reviews, Python, numbers: in four minutes
      headway recipes                                  what can be trained
      headway train parity model.width=16              a recipe, with settings changed
      headway train classify data.train=reviews.csv    texts of your own, with labels of your own
      headway train language data.train=novels.txt     texts of your own, to go on from
      headway train translate data.source=a.en data.target=a.de    texts of your own, side by side
      headway pretrain data.train=texts.jsonl          texts of your own, without labels
    """


for verbs in (
    training,
    pretraining,
    adapting,
    exchanging,
    asking,
    writing,
    searching,
    answering,
    aligning,
    translating,
    vectors,
    senses,
    looking,
    reading,
    comparing,
    studies,
    tour,
):
    for verb in verbs.VERBS:
        app.add_command(verb)


def main() -> None:
    """Run a verb; what a user can put right is one line on standard error, and no traceback."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    warnings.showwarning = partial(show_warning, warnings.showwarning)
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except Problem as problem:
        fail(str(problem), problem.exit_code)
    except click.ClickException as error:
        fail(f"{error.format_message()} (headway --help lists the verbs, headway VERB --help their options)", 2)
    except OSError as error:
        fail(str(error), 2)
    except (MemoryError, RuntimeError) as error:
        if not is_about_memory(error):
            raise
        fail("this needs more memory than there is: make the model, its window or the batch smaller", 2)
    except (KeyboardInterrupt, click.Abort):
        fail("stopped", 130)


def show_warning(usual: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """A setting's old name is one line, without the place in the code."""
    if category is RenamedSetting:
        click.echo(f"headway: note: {message}", err=True)
    else:
        usual(message, category, *where)


def is_about_memory(error: Exception) -> bool:
    """torch has no error of its own for it but on a GPU."""
    signs = ("allocate memory", "out of memory", "size calculation overflowed")
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in signs)


def fail(message: str, code: int) -> None:
    line = " ".join(message.split())
    click.echo(f"headway: {line}", err=True)
    sys.exit(code)
