"""In a notebook: one line of progress, results as tables, maps and curves as pictures."""

import base64
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from conftest import write_reviews

TRAIN = """
import headway as hw
model = hw.train("classify", data="reviews.csv", model={"layers": 1, "width": 8, "heads": 2},
                 train={"steps": 30, "evaluate_every": 10})
small = {"data.examples": 60, "data.tests": 20, "train.steps": 2}
"""
TABLES = {
    "model": "accuracy",
    "model.metrics": "accuracy",
    "model.evaluate()": "accuracy",
    "model.predict(['the plot was good .'])": "the plot was good .",
    "model.run": "classify",
    "hw.list_runs()": "runs/classify-1",
    "hw.list_recipes()": "parity-classic",
    "hw.list_settings('parity')": "model dimension",
    "model.explain('the plot was not dull .')": "gradient × input",
    "hw.compare('parity', vary={'model.norm': ['pre', 'post']}, seeds=1, settings=small)": "norm=post",
    "hw.summarize('parity', settings=small)": "encoder.embedding.table",
}
PICTURES = ["model.attention('the plot was not dull .')", "model.run.plot()", "hw.schedule('parity').plot()"]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outputs of each cell, by its source."""
    folder = tmp_path_factory.mktemp("notebook")
    write_reviews(folder / "reviews.csv")
    sources = [TRAIN, *TABLES, *PICTURES]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return {cell.source: cell.outputs for cell in notebook.cells}


def test_training_is_one_line_that_says_the_result(cells: dict[str, Any]) -> None:
    shown = [output for output in cells[TRAIN] if output.output_type == "display_data"]
    texts = [output.data["text/html"] for output in shown if output.data["text/html"]]
    assert len(texts) == 1  # the line for reading is empty by now
    assert "runs/classify-1: 30 steps in 0:" in texts[0]
    assert "accuracy 0." in texts[0]
    assert not [output for output in cells[TRAIN] if output.output_type == "stream"]


@pytest.mark.parametrize("source", TABLES)
def test_results_are_tables(source: str, cells: dict[str, Any]) -> None:
    page = cells[source][-1].data["text/html"]
    assert TABLES[source] in page
    assert "<table>" in page or "<span" in page


@pytest.mark.parametrize("source", PICTURES)
def test_maps_and_curves_are_pictures(source: str, cells: dict[str, Any]) -> None:
    picture = base64.b64decode(cells[source][-1].data["image/png"])
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5_000
