"""Scores of a translator by direction: the table, the means and the picture."""

from pathlib import Path

import pytest

from headway.data.directions import Direction
from headway.lab.direction_matrix import DirectionMatrix, direction_matrices

SCORES = {("en", "de"): 31.0, ("de", "en"): 33.25, ("de", "fr"): 9.0, ("fr", "de"): 4.0}
TRAINED = {("en", "de"), ("de", "en")}


def report(*directions: tuple[str, str]) -> dict[str, object]:
    rows = [
        {"source": a, "target": b, "trained": (a, b) in TRAINED, "bleu": SCORES[a, b], "exact": 0.5, "examples": 10}
        for a, b in directions
    ]
    return {"metric": "bleu", "scores": rows}


def test_sets_of_different_directions_share_a_matrix() -> None:
    trained, others = report(*sorted(TRAINED)), report(("de", "fr"), ("fr", "de"))
    (matrix,) = direction_matrices({"trained": trained, "zero-shot": others})
    assert matrix.title == "trained and zero-shot"
    assert list(matrix.table().rows) == [
        ("de", "     ", "33.2 ", " 9.0*"),
        ("en", "31.0 ", "     ", "     "),
        ("fr", " 4.0*", "     ", "     "),
    ]
    assert matrix.means == {
        "mean over trained directions": {"bleu": 32.125, "exact": 0.5, "examples": 20},
        "mean over zero-shot directions": {"bleu": 6.5, "exact": 0.5, "examples": 20},
    }
    assert "* zero-shot" in matrix.about
    both = direction_matrices({"unseen": trained, "longer": trained}, "exact")
    assert [each.title for each in both] == ["unseen", "longer"]
    assert [each.cell(Direction("en", "de")) for each in both] == ["0.500 ", "0.500 "]
    assert "zero-shot" not in both[0].about


def test_a_matrix_is_drawn_with_a_frame_around_trained_directions(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (matrix,) = direction_matrices({"test": report(*SCORES)})
    plot = matrix.plot()
    (axes,) = plot.figure.axes
    *cells, caption = (text.get_text() for text in axes.texts)
    assert set(cells) == {"31.0", "33.2", "9.0", "4.0"}
    assert caption == "bleu, test\nframed: trained directions; others: zero-shot"
    assert len(axes.patches) == len(TRAINED)
    plot.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert "<td" in matrix._repr_html_()


def test_nothing_is_made_of_nothing() -> None:
    assert direction_matrices({}) == []
    empty = DirectionMatrix("test", "bleu", {}, frozenset())
    assert empty.means == {}
