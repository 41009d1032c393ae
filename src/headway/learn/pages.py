"""Pages of HTML that need nothing else and print well."""

import html
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from headway.config.errors import Problem

STYLE = """
body { font: 11pt/1.4 Georgia, serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #111; }
h1, h2, h3, th { font-family: Helvetica, Arial, sans-serif; }
table { border-collapse: collapse; margin: 1em 0; font-size: 9pt; }
th, td { border: 1px solid #bbb; padding: .2em .5em; text-align: left; vertical-align: top; }
pre { background: #f5f5f5; padding: .6em; white-space: pre-wrap; font-size: 9pt; }
h2 { display: flex; justify-content: space-between; gap: 1em; }
.points { font-weight: normal; white-space: nowrap; }
.lines { border-bottom: 1px solid #ccc; height: 1.6em; }
section { break-inside: avoid; }
.long { break-inside: auto; break-before: page; } .code { font-size: 7.2pt; line-height: 1.25; }
tr { break-inside: avoid; } td { white-space: pre-wrap; }
.room { width: 100%; } .room td { height: 2.2em; } .room td:first-child, .room th:first-child { width: 4em; }
.good { color: #176d2d; } .bad { color: #b3261e; }
.panels, .panels > tbody > tr > td { border: none; }
.grid td { text-align: right; }
.grid .at { outline: 3px solid #111; }
@page { margin: 2cm; @bottom-center { content: counter(page) " / " counter(pages); font: 9pt Georgia, serif; } }
@media print { body { margin: 0; max-width: none; } }
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "microsoft-edge")


class Cell:
    """A share from 0 to 1, coloured from red to green; None: nothing is there."""

    def __init__(self, share: float | None):
        self.share = share

    def __str__(self) -> str:
        if self.share is None:
            return "<td></td>"
        hue = round(120 * min(max(self.share, 0.0), 1.0))
        return f'<td style="background: hsl({hue}, 70%, 85%)">{self.share:.0%}</td>'


def escaped(text: str) -> str:
    return html.escape(text)


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> str:
    head = "".join(f"<th>{escaped(column)}</th>" for column in columns)
    lines = (
        "".join(str(cell) if isinstance(cell, Cell) else f"<td>{escaped(cell)}</td>" for cell in row) for row in rows
    )
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def prose(text: str) -> str:
    """Paragraphs; indented ones keep their form."""
    parts = (part for part in text.split("\n\n") if part.strip())
    return "".join(
        f"<pre>{escaped(part)}</pre>" if part.startswith("    ") else f"<p>{escaped(part)}</p>" for part in parts
    )


def page(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><title>{escaped(title)}</title><style>{STYLE}</style>'
    return f"<!doctype html><html lang='en'><head>{head}</head><body><h1>{escaped(title)}</h1>{body}</body></html>\n"


def print_pdf(source: Path, target: Path) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise Problem(f"no browser is there to make a PDF ({', '.join(BROWSERS)}): print {source} yourself")
    words = [
        browser,
        "--headless",
        "--disable-gpu",
        "--no-sandbox",
        "--no-pdf-header-footer",
        f"--print-to-pdf={target}",
        source.resolve().as_uri(),
    ]
    made = subprocess.run(words, capture_output=True, check=False, timeout=120)
    if made.returncode or not target.is_file():
        raise Problem(f"{browser} could not make a PDF: print {source} yourself")
