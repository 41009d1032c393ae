"""The server under requests that schemathesis makes from its OpenAPI document: valid ones, and broken ones."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import schemathesis
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from server.conftest import Served, models_of, serving
from torture.harness import SEED, Tally, count
from trained import Trained

CHECKS: list[CheckFunction] = [status_code_conformance, content_type_conformance, response_schema_conformance]
REQUESTS = 20_000, 100  # at full counts, and in ``make test``
TELLING = ("Traceback", "site-packages", 'File "', str(Path(__file__).parents[2]), "/tmp/", "/home/")


def test_generated_requests(trained: Trained, tmp_path: Path, tally: Tally) -> None:
    runs = [str(model.run.folder) for model in models_of(trained).values()]
    torch.set_flush_denormal(False)  # which training has set: hypothesis wants the smallest numbers, too
    try:
        with serving(tmp_path, *runs, "--max-tokens", "40") as served:
            try_all(served, tally)
    finally:
        torch.set_flush_denormal(True)


def try_all(served: Served, tally: Tally) -> None:
    document = schemathesis.openapi.from_url(f"{served.address}/openapi.json")
    results: Any = document.get_all_operations()
    operations = [each.ok() for each in results]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    share = max(1, count(*REQUESTS) // (len(operations) * len(modes)))
    statuses: Counter[int] = Counter()
    for operation in operations:
        for mode in modes:
            try_operation(operation, mode, share, statuses, tally)
    assert sum(statuses.values()) >= 0.5 * count(*REQUESTS)
    assert statuses[200] > 0.1 * sum(statuses.values())
    assert statuses[400] > 0.1 * sum(statuses.values())
    for status, number in statuses.items():
        tally.add(str(status), number)
    assert served.metric("headway_restarts_total") == 0


def try_operation(operation: Any, mode: GenerationMode, times: int, statuses: Counter[int], tally: Tally) -> None:
    checks = [*CHECKS, negative_data_rejection] if mode is GenerationMode.NEGATIVE else CHECKS
    strategy = operation.as_strategy(generation_mode=mode)

    @seed(SEED)
    @settings(
        max_examples=times,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        response = case.call(timeout=60)
        statuses[response.status_code] += 1
        if response.status_code >= 500 or any(word in response.text for word in TELLING):
            tally.found(
                "tracebacks", f"{operation.label}: {response.status_code} {response.text[:300]} to {case.body!r}"
            )
        if response.status_code != 413:  # a refusal, too, but not one that the checks know
            case.validate_response(response, checks=checks)

    with suppress(Unsatisfiable):  # nothing can be broken in a route without parameters
        ask()
