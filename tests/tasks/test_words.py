"""Language models of words: texts that are cut at spaces, and perplexity by word for any tokenizer, by hand."""

import math
from pathlib import Path
from random import Random

import pytest
import torch

import headway as hw
from conftest import shake
from headway import recipes
from headway.tasks import TASKS
from headway.tasks.language import Language
from headway.text.tokenizer import TOKENIZERS, Tokenizer

RANDOM = Random(3)
WORDS = ["the", "old", "house", "<unk>", "'s", "is", ",", ".", "N", "un@-@lit"]
LINES = [" " + " ".join(RANDOM.choice(WORDS) for _ in range(RANDOM.randrange(0, 9))) + " " for _ in range(300)]
TEXT = "".join(line + "\n" for line in LINES)  # as WikiText has it, with empty lines
SMALL = ["model.layers=1", "model.width=8", "model.heads=2", "data.window=16", "data.name=none"]


def language(folder: Path, text: str, *overrides: str) -> Language:
    path = folder / "text.tokens"
    path.write_text(text)
    task = TASKS["language"](
        recipes.load("language", [f"data.train={path}", "data.validation=0.2", *SMALL, *overrides])
    )
    task.prepare()
    assert isinstance(task, Language)
    return task


def total_by_hand(task: Language, model: torch.nn.Module) -> float:
    """The negative log-probability of the whole validation text, from the logits of its windows."""
    (stream,) = task.splits().validation.values()
    tokens, total, begin = torch.from_numpy(stream.tokens.astype("int64")), 0.0, 0
    model.eval()
    while begin < len(tokens) - 1:
        window = tokens[begin : begin + 17]
        with torch.no_grad():
            logits = model(window[None, :-1])[0].double()
        total -= logits.log_softmax(dim=-1)[torch.arange(len(window) - 1), window[1:]].sum().item()
        begin += 16
    return total


def test_text_that_is_cut_at_spaces_keeps_its_words(tmp_path: Path) -> None:
    own = Tokenizer.learn('word(split="space")', [TEXT], "", 100, 1)
    (tokens,) = own.encode([" the <unk> 's un@-@lit \n \n gone ,\n"])
    symbols = [own.vocabulary.symbols[token] for token in tokens]
    assert symbols == ["the", "<unk>", "'s", "un@-@lit", "<eos>", "<eos>", "<unk>", ",", "<eos>"]
    assert tokens[1] == tokens[6] == own.vocabulary.index["<unk>"]
    own.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode([TEXT])[0].tolist() == own.encode([TEXT])[0].tolist()
    with pytest.raises(ValueError, match="split='spaces' is neither"):
        Tokenizer.learn('word(split="spaces")', [TEXT], "", 100, 1)


def test_perplexity_of_words_by_hand_from_the_logits(tmp_path: Path) -> None:
    """Every word and every end of a line but the first token, <unk> included, as published numbers are made."""
    task = language(tmp_path, TEXT, 'data.tokenizer=word(split="space")')
    model = shake(task.model())
    (stream,) = task.splits().validation.values()
    words = TEXT.replace("\n", " <eos> ").split()
    assert len(task.splits().train.tokens) + len(stream.tokens) == len(words)
    by_hand = math.exp(total_by_hand(task, model) / (len(stream.tokens) - 1))
    metrics = task.measure(model, stream)
    assert metrics["perplexity"] == pytest.approx(by_hand, rel=1e-5)
    assert metrics["perplexity_word"] == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("kind", [name for name in TOKENIZERS if name != "word"])
def test_perplexity_by_word_of_other_tokenizers_follows_from_the_same_sum(kind: str, tmp_path: Path) -> None:
    text = "\n\n" + "".join(f"{line.strip()}\n" for line in LINES).replace("un@-@lit", "söme  thing\tmore")
    task = language(tmp_path, text, f"data.tokenizer={kind}", "data.vocab_size=400")
    model = shake(task.model())
    (stream,) = task.splits().validation.values()
    first, rest = (task.tokenizer.decode(part.tolist()) for part in (stream.tokens[:1], stream.tokens))
    tail = rest[len(first) :]
    goes_on = not first[-1:].isspace() and not tail[:1].isspace()  # the first token begins a word, which is not counted
    count = len(tail.split()) + tail.count("\n") - goes_on
    assert count > 100
    metrics = task.measure(model, stream)
    by_hand = math.exp(total_by_hand(task, model) / count)
    assert metrics["perplexity_word"] == pytest.approx(by_hand, rel=1e-5)


def test_a_language_model_of_words_from_the_command_line_to_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    model = hw.train(
        "language",
        data=tmp_path / "text.txt",
        settings=[*SMALL, "data.tokenizer=word", "data.validation=0.2", "train.steps=2"],
        out=tmp_path / "run",
    )
    assert {"perplexity", "perplexity_word"} <= model.metrics["validation"].keys()
    assert model.generate("the old", max_new_tokens=3)


def test_a_text_without_spaces_has_no_perplexity_by_word(tmp_path: Path) -> None:
    task = language(tmp_path, "abcab" * 200, "data.tokenizer=char")
    (stream,) = task.splits().validation.values()
    metrics = task.measure(shake(task.model()), stream)
    assert "perplexity" in metrics
    assert "perplexity_word" not in metrics
