"""Steers a language model of film reviews towards praise, and asks a judge that it never met what came of it.

    python benchmarks/steering.py --train train.jsonl.xz --test test.jsonl.xz --unlabelled unsup.jsonl.xz

Four runs lead up to it, none with weights or texts from elsewhere:

- a language model of the reviews of --train and --unlabelled
- a critic, which tells praise from blame by three words at a time, of --train: it stands in for people
- a reward model, of four continuations each of neutral openings, which the language model writes and the critic ranks
- a judge of another kind, an LSTM, of --test: other films, other reviews

Then a policy learns from the reward model, seed by seed. What it comes to is measured on openings that it has not
learned from: the share of its continuations that the judge calls praise, how far it is from where it began, how well it
still foretells held-out reviews, and how often it repeats itself. Openings are neutral if the critic is less sure of
them than of most. Runs stay in --out; what is done is not done again.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np

from headway import recipes
from headway.data.readers import Format, records
from headway.lab.rlhf_study import Bench
from headway.runs.fit import resume, start
from headway.runs.run import Run
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.ranking_data import RankingPlan, write_rankings
from headway.tasks.rlhf.rewards import reward_of

PRAISE = "1"  # the label
WORDS, OPENINGS, HELD_OUT = 4, 6_000, 500  # of openings, how many there are, and to measure on; of reviews likewise
LANGUAGE = [
    "data.vocab_size=12000",
    "data.window=256",
    "data.normalize=html nfkc lower",
    "model.layers=8",
    "model.width=512",
    "model.heads=8",
    "model.feedforward=squared_relu",
    "train.optimizer=muon(matrix_rate=0.015)",
    "train.learning_rate=8e-4",
    "train.steps=2500",
    "train.batch_size=128",
    "train.warmup=100",
    "train.schedule=warmup_stable_decay(decay=0.4)",
    "train.precision=bf16",
    "train.compile=blocks",
    "train.evaluate_every=1000",
    "train.checkpoint_every=2500",
]
ANSWERS = ["data.template={prompt}{answer}", "data.max_length=96"]
REWARD = [
    *ANSWERS,
    "data.validation=0.1",
    "train.epochs=2",
    "train.batch_size=64",
    "train.learning_rate=5e-5",
    "train.precision=bf16",
]
POLICY = [
    *ANSWERS,
    "data.max_new_tokens=48",
    "data.rollouts=512",
    "data.ppo_epochs=2",
    "data.kl_penalty=adaptive(beta=0.1, target=7)",
    "data.ptx_coef=0.4",
    "train.batch_size=128",
    "train.learning_rate=3e-5",
    "train.steps=640",
    "train.precision=bf16",
    "train.evaluate_every=80",
]


def trained(recipe: str, words: list[str], folder: Path) -> Run:
    session = resume(folder) if folder.exists() else start(recipes.load(recipe, words), folder)
    for _ in session.steps():
        pass
    test = {name: round(score, 4) for name, score in next(iter(session.run.results["test"].values())).items()}
    print(f"{folder.name}: {session.run.results['seconds']:.0f} s, {test}", flush=True)
    return session.run


def texts_in(path: Path) -> list[str]:
    return [str(record.fields["text"]) for record in records(path, Format())]


def write_rows(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def neutral(reviews: list[str], critic: Run) -> list[str]:
    """Of how reviews begin, in the order in which they stand, what the critic is not sure of."""
    plain = (re.sub(r"<br />|\s+", " ", review).split()[:WORDS] for review in reviews)
    openings = list(dict.fromkeys(" ".join(words) for words in plain if len(words) == WORDS))[: 3 * OPENINGS]
    odds = np.abs(reward_of(f"{critic.folder}:{PRAISE}", "critic", Run)(openings, [""] * len(openings)))
    middle = np.quantile(odds, 1 / 3)
    return [opening for opening, sure in zip(openings, odds, strict=True) if sure <= middle]


def prepare(options: argparse.Namespace) -> dict[str, Path]:
    """All runs and files that a policy needs."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    reviews = [text for path in (options.train, options.unlabelled) for text in texts_in(path)]
    known, held_out = ([{"text": review} for review in part] for part in (reviews[HELD_OUT:], reviews[:HELD_OUT]))
    texts, others = write_rows(out / "texts.jsonl", known), write_rows(out / "others.jsonl", held_out)
    critic = trained("sentiment-best", [f"data.train={options.train}", *options.critic], out / "critic")
    judge = trained("sentiment-rnn", [f"data.train={options.test}", *options.judge], out / "judge")
    words = [f"data.train={texts}", f"data.validation={others}", *LANGUAGE, *options.language]
    language = trained("language", words, out / "language")
    openings = [{"prompt": opening} for opening in neutral(reviews, critic)]
    train = write_rows(out / "openings.jsonl", openings[HELD_OUT:])
    asked = write_rows(out / "held-out.jsonl", openings[:HELD_OUT])
    rankings = out / "rankings.jsonl"
    if not rankings.exists():
        write_rankings(
            language.folder,
            train,
            f"{critic.folder}:{PRAISE}",
            rankings,
            RankingPlan(answers=4, max_new_tokens=48),
            Run,
        )
    words = [f"start={language.folder}", f"data.train={rankings}", *REWARD, *options.reward]
    reward = trained("reward", words, out / "reward")
    runs = {"language": language, "judge": judge, "reward": reward}
    return {"openings": train, "held-out": asked, "texts": texts} | {name: run.folder for name, run in runs.items()}


def outcome(run: Run, judge: Path) -> dict[str, float]:
    """Of a policy, and of what it was."""
    bench, policy = Bench.of(run), run.model()
    assert isinstance(policy, PolicyWithReference)
    odds = reward_of(f"{judge}:{PRAISE}", "judge", Run)
    bench.task.rewards = {"praise": lambda prompts, answers: [float(each > 0) for each in odds(prompts, answers)]}
    prompts = bench.task.splits().validation["validation"]
    found: dict[str, float] = {}
    for name, model in {"before": bench.untrained_policy(), "after": policy}.items():
        measured = bench.task.measure(model, prompts)
        found |= {f"{what} {name}": measured[what] for what in ("praise", "kl", "repeated")}
        found[f"perplexity {name}"] = bench.perplexity(model.decoder) or float("nan")
    return found | {"seconds": run.results["seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="labelled reviews: text, label")
    parser.add_argument("--test", type=Path, required=True, help="other labelled reviews, for the judge")
    parser.add_argument("--unlabelled", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/steering"))
    for stage in ("language", "critic", "judge", "reward", "policy"):
        parser.add_argument(f"--{stage}", nargs="*", default=[], metavar="KEY=VALUE", help=f"settings of the {stage}")
    options = parser.parse_args()
    there = prepare(options)
    files = [f"start={there['language']}", f"data.reward={there['reward']}", f"data.ptx_data={there['texts']}"]
    files += [f"data.train={there['openings']}", f"data.validation={there['held-out']}"]
    for seed in range(1, options.seeds + 1):
        words = [*files, *POLICY, *options.policy, f"train.seed={seed}"]
        found = outcome(trained("ppo", words, options.out / f"policy-{seed}"), there["judge"])
        print("  ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
