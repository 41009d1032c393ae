"""Fixtures of the torture tests, and the table of counts at their end."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from torture.harness import SEED, SHARE, Forks, Tally, table
from torture.works import make_bases


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(scope="session")
def bases(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of data, and with trained runs that others start from."""
    folder = tmp_path_factory.mktemp("bases")
    make_bases(forks, folder)
    return folder


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Counts of this test; it fails if a fault was noted."""
    tally = Tally(request.path.stem.removeprefix("test_"))
    yield tally
    request.node.user_properties.append(("torture", (tally.row, dict(tally.did))))
    if tally.wrong:
        pytest.fail(f"seed {SEED}, {len(tally.wrong)} faults:\n" + "\n".join(tally.wrong[:5]), pytrace=False)


def pytest_report_header() -> str:
    return f"torture: seed {SEED} (HEADWAY_SEED), share {SHARE or 'small'} (HEADWAY_TORTURE)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows: dict[str, Counter[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                for name, (row, did) in getattr(report, "user_properties", ()):
                    if name == "torture":
                        rows.setdefault(row, Counter()).update(did)
    if rows:
        terminalreporter.write_line(f"\nseed {SEED}")
        for line in table(rows):
            terminalreporter.write_line(line)
