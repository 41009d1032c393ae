"""Results for files of any size: in order, resumed after a stop, and never from other work."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from headway.config.errors import Problem
from headway.data import chunks
from headway.data.chunks import Rows, process


class Stop(Exception):
    pass


def worker(seen: list[str], stop_at: str = "-") -> Any:
    def work(texts: Sequence[str]) -> Rows:
        if stop_at in texts:
            raise Stop
        seen.extend(texts)
        return [{"text": text, "label": None if not text else text.upper()} for text in texts]

    return work


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SIZE", 3)


TEXTS = ["", "", "", *"abcdefgh"]  # the first chunk has no label at all


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl"])
def test_work_that_was_stopped_goes_on(name: str, tmp_path: Path) -> None:
    out, identity, seen = tmp_path / name, {"run": "one"}, list[str]()
    with pytest.raises(Stop):
        process(iter(TEXTS), out, identity, worker(seen, "e"))
    assert not out.exists()
    assert process(iter(TEXTS), out, identity, worker(seen)) == (11, 6)
    assert seen == TEXTS  # none was done twice
    rows = parquet.read_table(out).to_pylist() if name.endswith("parquet") else read_lines(out)
    assert rows == [{"text": text, "label": text.upper() or None} for text in TEXTS]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("small")
def test_chunks_of_other_work_are_not_used(tmp_path: Path) -> None:
    out, seen = tmp_path / "out.jsonl", list[str]()
    with pytest.raises(Stop):
        process(iter(TEXTS), out, {"run": "one"}, worker([], "e"))
    assert process(iter(TEXTS), out, {"run": "another"}, worker(seen)) == (11, 0)
    assert seen == TEXTS


@pytest.mark.parametrize(
    ("name", "texts", "message"),
    [("out.csv", ["a"], r"ends in none of .parquet, .jsonl"), ("out.jsonl", [], "there is no text")],
)
def test_bad_requests(name: str, texts: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=message):
        process(iter(texts), tmp_path / name, {}, worker([]))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    parquet.write_table(pyarrow.table({"text": ["mine"]}), out)
    with pytest.raises(Problem, match="already exists"):
        process(iter(["a"]), out, {}, worker([]))
