"""tour: train on puzzles, reviews, Python, packages and numbers, and look at the results."""

import csv
import shlex
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from headway.cli import adapt
from headway.cli.progress import following
from headway.cli.render import Output, Stream, Table, columns, console, print_block, render

if TYPE_CHECKING:
    from headway.api.model import Model

NEXT = {
    "headway show parity": "layers, shapes and parameters",
    "headway schedule substring": "a plot of the learning rate",
    "headway compare parity --vary model.norm=pre,post,rezero": "which norm is best? means over seeds",
    "headway search parity data.length=8 --trials 20": "the smallest network that solves it",
    "headway data reviews.csv": "statistics of your own labelled texts",
    "headway train classify data.train=reviews.csv": "train on them",
    "headway train substring-long": "train on strings of 32, test on strings of 128",
    "headway train language data.train=novels.txt": "a language model of your own text",
    "headway pretrain data.train=texts.jsonl": "pre-train on unlabelled text",
    "headway train steps": "does chain of thought help? direct answers against step by step",
    "headway train tag": "what is each token of Python? labels of words, as for names and parts of speech",
    "headway train translate data.source=a.en data.target=a.de": "translate, from parallel texts",
}


@click.command()
def tour() -> None:
    """Train Transformers on puzzles, reviews, Python and numbers. See what they predict, attend to and generate, and
    how a pre-trained one is reused. Takes about four minutes.

    \b
    Example:
      headway tour
    """
    heading("1. Parity: is the number of ones odd?")
    console.print("Every bit flips the answer: nothing but the exact count helps.")
    predict(train("parity", "train.steps=600"), ["0000000000000001", "0110100110010110", "1111111011111111"])

    heading("2. The same with the usual setup: ReLU, random strings")
    console.print("Same size, same time; it stays near chance.")
    train("parity-classic", "train.steps=600")

    heading("3. Substring: does it contain 'cab'?")
    console.print("The prediction is read from a [CLS] token. Half of the strings without 'cab' are near misses.")
    finder = train("substring")
    strings = ["ddbacabdabcadbbacdda", "ddbaccbdabcadbbacdda"]
    predict(finder, strings)
    show_attention(finder, strings[0])

    heading("4. Synthetic film reviews: what does the 'not' refer to?")
    console.print("One sentence has a 'not', one a 'really'. Without layers and positions, it is a bag of words:")
    train("reviews", "model.layers=0", "model.position=none")
    console.print("\nThe same with two layers of attention:")
    reader = train("reviews")
    reviews = [
        "the plot was not dull . i did really enjoy the music .",
        "the plot was really dull . i did not enjoy the music .",
    ]
    predict(reader, reviews)

    heading("5. A language model of Python: what comes next?")
    console.print("Trained on the standard library of this machine. The recipe itself trains more than twice as long.")
    author = train("language", "train.steps=400")
    generate(author, "def read(self, path")

    heading("6. Reusing it: which package is a piece of code from?")
    console.print(
        "The language model with a few labelled pieces of asyncio, email and unittest: fine-tuned, probed, and\n"
        "prompted with examples (which takes a larger network to do better than guessing)."
    )
    adapt_to_packages(author)

    heading("7. Translating numbers between words and digits")
    console.print("A tenth of the numbers are held out. The recipe trains twice as long and gets nearly all right.")
    translate(
        train("numbers", "train.steps=750"),
        ["de three hundred twenty one", "fr neunundneunzig", "digits deux mille dix-sept"],
    )

    heading("What to try next")
    trained = {
        shlex.join(
            ["headway", "predict", str(finder.run.folder), "abcdabcdcabdabcdabcd"]
        ): "predict with a trained model",
        shlex.join(["headway", "explain", str(reader.run.folder), reviews[0]]): "which words mattered",
    }
    commands = Table(["command", "what it shows"], list((trained | NEXT).items()))
    render(Output(None, [commands], ["headway", "recipes"]))


def heading(text: str) -> None:
    console.print(Text(f"\n{text}", "bold"))


def train(name: str, *overrides: str) -> "Model":
    from headway.api.train import train as train_recipe

    return train_recipe(name, settings=overrides, progress=following())


def predict(model: "Model", texts: list[str]) -> None:
    rows = [(each.text, each.label, each.probability) for each in model.predict(texts)]
    print_block(Table(["text", "label", "probability"], rows))


def show_attention(model: "Model", text: str) -> None:
    """Above each letter, the attention of [CLS] in the last layer, one line per head."""
    last_layer = list(model.attention(text).layers.values())[-1]  # (heads, queries, keys)
    console.print("\nattention of [CLS] in the last layer:")
    for head, weights in enumerate(last_layer[:, 0, 1:].tolist(), start=1):
        console.print(f"head {head}  {columns(weights, height=1)[0]}")
    console.print(f"        {text}")


def generate(model: "Model", prompt: str) -> None:
    pieces = model.stream(prompt, max_new_tokens=80, temperature=0.6, top_p=0.9, seed=0)
    print_block(Stream(prompt, pieces))


def adapt_to_packages(model: "Model") -> None:
    from headway.api.studies import adapt as adapt_model

    labelled = write_pieces(model.run.folder.parent / "pieces.csv")
    result = adapt_model(
        model,
        labelled,
        examples=(16, 256),
        shots=(0, 4, 8),
        tests=100,
        seeds=1,
        settings=["train.steps=100", "train.evaluate_every=100"],
        progress=following(brief=True),
    )
    render(Output(None, adapt.report(result, seeds=1), notes=result.notes))


def write_pieces(path: Path, packages: tuple[str, ...] = ("asyncio", "email", "unittest"), size: int = 8) -> Path:
    """Pieces of ``size`` lines from the standard library of this machine, labelled with their package."""
    library = Path(sysconfig.get_paths()["stdlib"])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for package in packages:
            for source in sorted((library / package).glob("*.py")):
                lines = source.read_text(encoding="utf-8").splitlines()
                pieces = ("\n".join(lines[first : first + size]) for first in range(0, len(lines), size))
                writer.writerows((piece, package) for piece in pieces if piece.strip())
    return path


def translate(model: "Model", texts: list[str]) -> None:
    translations = model.translate(texts, progress=following())
    print_block(Table(["text", "translation"], list(zip(texts, translations, strict=True))))
