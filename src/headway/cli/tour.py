"""The tour: puzzles, reviews, Python, packages and numbers, learned in front of one's eyes."""

import csv
import shlex
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from headway.cli.adapting import follow_study
from headway.cli.output import console, next_step, print_table
from headway.cli.progress import bars
from headway.cli.studies import free_folder
from headway.cli.training import follow

if TYPE_CHECKING:
    from headway.runs.run import Run

NEXT = {
    "headway show parity": "its layers, their shapes and parameters",
    "headway schedule substring": "its learning rate, drawn",
    "headway compare parity --vary model.norm=pre,post,rezero": "which norm is best? means over seeds",
    "headway search parity data.length=8 --trials 20": "the smallest network that solves it",
    "headway data reviews.csv": "what there is in a file of texts with labels of your own",
    "headway train classify data.train=reviews.csv": "learn from it",
    "headway train substring-long": "learn on strings of 32, answer on strings of 128",
    "headway train language data.train=novels.txt": "learn to write like a text of your own",
    "headway pretrain data.train=texts.jsonl": "learn from texts without labels",
    "headway train steps": "is thinking aloud worth it? at once against step by step",
    "headway train translate data.source=a.en data.target=a.de": "learn to translate from texts side by side",
}


@click.command()
def tour() -> None:
    """Train Transformers on puzzles, reviews, Python and numbers, and see what they answer, where they look, what they
    write, and what else they can be used for.

    It takes some four minutes.

    \b
    Example:
      headway tour
    """
    from headway.generation import Sampling
    from headway.lab.adapt import Study
    from headway.tasks.abilities import Generates, Translates, need

    heading("1. Parity: is the number of ones odd?")
    console.print("One bit anywhere turns the answer round: nothing but the exact count helps.")
    ask(train("parity", "train.steps=600"), ["0000000000000001", "0110100110010110", "1111111011111111"])

    heading("2. The same as it is usually set: ReLU, random strings")
    console.print("The same size, the same time; it stays near chance.")
    train("parity-classic", "train.steps=600")

    heading("3. Substring: is there a 'cab' in it?")
    console.print("Read out at a token [CLS] in front. Half of the strings without 'cab' are near misses.")
    finder = train("substring")
    strings = ["ddbacabdabcadbbacdda", "ddbaccbdabcadbbacdda"]
    ask(finder, strings)
    draw_attention(finder, strings[0])

    heading("4. Made-up film reviews: what does the 'not' belong to?")
    console.print(
        "One sentence says 'not' and one 'really'. Without layers and positions, only which words there are counts:"
    )
    train("reviews", "model.layers=0", "model.position=none")
    console.print("\nThe same with two layers of attention:")
    reader = train("reviews")
    reviews = [
        "the plot was not dull . i did really enjoy the music .",
        "the plot was really dull . i did not enjoy the music .",
    ]
    ask(reader, reviews)

    heading("5. Writing Python: what comes next?")
    console.print("From the standard library of this machine. The recipe itself trains more than twice as long.")
    author, prompt = train("language", "train.steps=400"), "def read(self, path"
    console.print(Text(prompt, "bold"), end="")
    for (piece,) in (
        need(author.task, Generates).generator(author.model()).stream([prompt], 80, Sampling(0.6, top_p=0.9))
    ):
        console.print(Text(piece), end="")
    console.print()

    heading("6. What it has learned is good for more: which package is a piece of code from?")
    console.print(
        "The network that writes Python, with a few labelled pieces of asyncio, email and unittest: tuned, read out\n"
        "as it is, and asked with examples in a prompt, which takes a larger network to be more than a guess."
    )
    labelled = write_pieces(author.folder.parent / "pieces.csv")
    words = (f"data.train={labelled}", "train.steps=100", "train.evaluate_every=100")
    study = Study(author, words, (16, 256), (0, 4, 8), 1, 100, (), free_folder("adapt"))
    follow_study(study)

    heading("7. Translating numbers, from words to words and digits")
    console.print(
        "A tenth of the numbers are never shown. The recipe itself trains twice as long, and gets nearly all right."
    )
    linguist = train("numbers", "train.steps=750")
    numbers = ["de three hundred twenty one", "fr neunundneunzig", "digits deux mille dix-sept"]
    translator = need(linguist.task, Translates).generator(linguist.model())
    found = [translator.text_of(each) for each in translator.translate(numbers)]
    print_table(["text", "translation"], list(zip(numbers, found, strict=True)))

    heading("What to try next")
    predict = shlex.join(["headway", "predict", str(finder.folder), "abcdabcdcabdabcdabcd"])
    explain = shlex.join(["headway", "explain", str(reader.folder), reviews[0]])
    asking = [(predict, "ask a trained model"), (explain, "which words mattered for its answer")]
    print_table(["command", "what it shows"], [*asking, *NEXT.items()])
    next_step("headway", "recipes")


def write_pieces(path: Path, packages: tuple[str, ...] = ("asyncio", "email", "unittest"), size: int = 8) -> Path:
    """Pieces of so many lines of the standard library of this machine, labelled with the package that they are of."""
    library = Path(sysconfig.get_paths()["stdlib"])
    with path.open("w", encoding="utf-8", newline="") as file:
        generator = csv.writer(file)
        generator.writerow(["text", "label"])
        for package in packages:
            for source in sorted((library / package).glob("*.py")):
                lines = source.read_text(encoding="utf-8").splitlines()
                pieces = ("\n".join(lines[first : first + size]) for first in range(0, len(lines), size))
                generator.writerows((piece, package) for piece in pieces if piece.strip())
    return path


def heading(text: str) -> None:
    console.print(Text(f"\n{text}", "bold"))


def train(name: str, *words: str) -> "Run":
    from headway import recipes
    from headway.runs.fit import start

    with bars() as shown:
        session = start(recipes.load(name, words), show=shown)
    follow(session)
    return session.run


def ask(run: "Run", texts: list[str]) -> None:
    from headway.runs.model import Model

    print_table(
        ["text", "label", "probability"],
        [(each.text, each.label, each.probability) for each in Model(run).predict(texts)],
    )


def draw_attention(run: "Run", text: str) -> None:
    """Above each letter, how much [CLS] looks at it: a line for each head of the last layer."""
    from headway.lab.chart import columns
    from headway.nn import watch_attention
    from headway.tasks.abilities import Predicts, need

    model = run.model()
    with watch_attention(model) as maps:
        need(run.task, Predicts).predict(model, [text])
    last_layer = list(maps.values())[-1][0]  # (heads, from, to)
    console.print("\nwhere [CLS] looks in the last layer:")
    for head, weights in enumerate(last_layer[:, 0, 1:].tolist(), start=1):
        console.print(f"head {head}  {columns(weights, height=1)[0]}")
    console.print(f"        {text}")


VERBS = [tour]
