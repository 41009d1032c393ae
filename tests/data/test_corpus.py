"""A corpus: indexed, cut, encoded once, kept; and data sets that are fetched."""

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import write_reviews
from headway import recipes
from headway.config.errors import Problem
from headway.data import corpus as corpus_module
from headway.data.cache import cache_folder, kept
from headway.data.corpus import Corpus
from headway.data.download import NAMED, DataSet, fetch
from headway.data.examples import Reading
from headway.data.splitting import cut
from headway.tasks import TASKS
from headway.text.tokenizer import Tokenizer


def test_no_group_is_on_two_sides_and_the_shares_are_kept() -> None:
    groups = np.random.default_rng(0).integers(0, 2**63, 300).astype(np.uint64)
    rows = groups[np.random.default_rng(1).integers(0, 300, 10_000)]
    parts = cut(rows, [0.1, 0.2])
    assert np.sum(parts, axis=0).tolist() == [1] * 10_000
    owners = [set(rows[part].tolist()) for part in parts]
    assert all(owners[one].isdisjoint(owners[other]) for one, other in ((0, 1), (0, 2), (1, 2)))
    assert [part.mean() for part in parts] == pytest.approx([0.1, 0.2, 0.7], abs=0.01)
    again = cut(rows[::-1], [0.1, 0.2])
    assert all(np.array_equal(part, other[::-1]) for part, other in zip(parts, again, strict=True))


def test_a_small_file_has_its_share_to_the_row() -> None:
    rows = np.arange(1, 21).astype(np.uint64)
    assert [int(part.sum()) for part in cut(rows, [0.1, 0.25])] == [2, 5, 13]
    assert [int(part.sum()) for part in cut(rows, [])] == [20]


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    return write_reviews(tmp_path / "reviews.csv")


def learn(corpus: Corpus) -> Tokenizer:
    return Tokenizer.learn("word", corpus.texts("learning"), "", 100, 1)


def test_what_is_encoded_is_the_texts(reviews: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "TEXTS_AT_ONCE", 7)
    corpus = Corpus(reviews, Reading())
    tokenizer = learn(corpus)
    encoded, texts = corpus.encoded(tokenizer), list(corpus.texts("reading"))
    assert len(texts) == len(encoded) == 120
    for text, start, length in zip(texts, encoded.starts, encoded.sizes, strict=True):
        assert encoded.tokens[start : start + length].tolist() == tokenizer.encode([text])[0].tolist()
    assert isinstance(encoded.tokens, np.memmap)


def test_nothing_is_read_twice_and_another_content_is_another_key(
    reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Corpus(reviews, Reading())
    tokenizer = learn(first)
    first.encoded(tokenizer), first.index

    def refuse(*_: object) -> Iterator[object]:
        raise AssertionError("it is in the cache")

    copy = reviews.with_name("renamed.csv")
    copy.write_bytes(reviews.read_bytes())
    with monkeypatch.context() as patched:
        patched.setattr(Corpus, "examples", refuse)
        again = Corpus(copy, Reading())
        assert np.array_equal(again.encoded(tokenizer).tokens, first.encoded(tokenizer).tokens)
        assert again.index.labels == ["negative", "positive"]
    copy.write_bytes(reviews.read_bytes() + b"one more,positive\n")
    changed = Corpus(copy, Reading())
    assert changed.key != first.key
    assert len(changed.index.rows) == 121
    assert Corpus(reviews, Reading(label="text")).key != first.key


def test_labels_are_in_the_order_of_their_values(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(
        "text,label\n" + "".join(f"text {label},{label}\n" for label in ("10", "9", "nan", "-1", "b", "2.5"))
    )
    index = Corpus(path, Reading()).index
    assert index.labels == ["-1", "2.5", "9", "10", "b", "nan"]
    assert [index.labels[label] for label in index.rows["label"]] == ["10", "9", "nan", "-1", "b", "2.5"]
    assert index.rows["line"].tolist() == [2, 3, 4, 5, 6, 7]


def test_what_fails_leaves_nothing_in_the_cache() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("written")
        raise Problem("the disk is full")

    with pytest.raises(Problem, match="the disk is full"):
        kept("tokens", "key", fail)
    assert list((cache_folder() / "tokens").iterdir()) == []
    place = kept("tokens", "key", lambda folder: (folder / "whole").touch())
    assert [path.name for path in place.iterdir()] == ["whole"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(Problem, match=r"cannot write to the cache .*set HEADWAY_CACHE"):
        kept("tokens", "key", lambda folder: None)


def archive(names: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as file:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content.encode()))
    return stream.getvalue()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server on the loopback address, and the folder that it serves."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()


def served(server: tuple[str, Path], content: bytes, sha256: str | None = None) -> DataSet:
    address, folder = server
    (folder / "set.tar.gz").write_bytes(content)
    digest = sha256 or hashlib.sha256(content).hexdigest()
    return DataSet("films", f"{address}/set.tar.gz", digest, train="films/train", test="films/test")


def test_a_named_set_is_fetched_once_with_its_progress(server: tuple[str, Path]) -> None:
    data = served(server, archive({"films/train/pos/0_9.txt": "good", "films/test/neg/0_1.txt": "bad"}))
    seen: list[tuple[str, float]] = []
    files = fetch(data, lambda what, share: seen.append((what, share)))
    assert (Path(files["train"]) / "pos" / "0_9.txt").read_text() == "good"
    assert seen[-1] == ("fetching films", 1.0)
    (server[1] / "set.tar.gz").unlink()
    assert fetch(data) == files
    assert not list(Path(files["train"]).parent.parent.glob("archive"))


def test_the_texts_of_a_named_set_are_learned_from_without_those_to_test_on(
    server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {f"films/train/{place}/{number}_0.txt": f"{place} {number} , a film" for place in "ab" for number in "123"}
    more = {"films/train/urls_a.txt": "no text", "films/test/a/9_1.txt": "a 1 , a film"}
    monkeypatch.setitem(NAMED, "films", replace(served(server, archive(texts | more)), texts="[0-9]*.txt"))
    overrides = ["data.name=films", "data.vocab_size=300", "data.validation=0.2"]
    task: Any = TASKS["pretrain"](recipes.load("pretrain", overrides))
    task.prepare()
    assert len(np.unique(task.train.index.rows["line"])) == 6
    assert task.allowed.sum() == len(task.allowed) - 2  # both pieces of one, though all end in the same word
    (note,) = task.splits().notes
    assert note.startswith("1 texts are in ")
    assert note.endswith("films/test and are not trained on")


@pytest.mark.parametrize("kind", ["checksum", "missing", "offline", "outside", "no archive"])
def test_what_cannot_be_fetched_says_how_to_go_on(kind: str, server: tuple[str, Path], tmp_path: Path) -> None:
    good = archive({"films/train/pos/0_9.txt": "good"})
    data = served(server, good)
    if kind == "checksum":
        data = served(server, good + b"x", hashlib.sha256(good).hexdigest())
    elif kind == "missing":
        (server[1] / "set.tar.gz").unlink()
    elif kind == "offline":
        data = DataSet("films", "http://127.0.0.1:9/set.tar.gz", data.sha256, data.train, data.test)
    elif kind == "outside":
        data = served(server, archive({"../../outside.txt": "bad"}))
    else:
        data = served(server, b"no archive")
    with pytest.raises(Problem) as error:
        fetch(data)
    assert "\n" not in str(error.value)
    if kind in ("checksum", "missing", "offline"):
        assert "data.train=FOLDER/films/train data.test=FOLDER/films/test" in str(error.value)
    assert not list(cache_folder().rglob("*.txt"))
    assert not list(tmp_path.rglob("outside.txt"))
    assert list((cache_folder() / "sets").iterdir()) == []


def test_the_cache_is_readable(reviews: Path) -> None:
    corpus = Corpus(reviews, Reading())
    corpus.index  # noqa: B018
    (labels,) = cache_folder().rglob("labels.json")
    assert json.loads(labels.read_text()) == ["negative", "positive"]


def test_folders_of_links_are_known_by_what_they_lead_to(tmp_path: Path) -> None:
    for label in ("neg", "pos"):
        (tmp_path / "real" / label).mkdir(parents=True)
        (tmp_path / "real" / label / "1.txt").write_text(label)
        (tmp_path / "links").mkdir(exist_ok=True)
        (tmp_path / "links" / label).symlink_to(tmp_path / "real" / label)
    before = Corpus(tmp_path / "links", Reading()).key
    (tmp_path / "real" / "pos" / "2.txt").write_text("more")
    assert Corpus(tmp_path / "links", Reading()).key != before


def test_notes_name_the_file_that_is_read_now(tmp_path: Path) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    for path in (first, second):
        path.write_text("text,label\na,x\n,y\n")
        assert Corpus(path, Reading()).index.notes == [
            f"{path}: 1 rows without a text are skipped, the first on line 3"
        ]
