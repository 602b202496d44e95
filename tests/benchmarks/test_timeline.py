"""The table of what workers did, from a log."""

import json
from collections.abc import Iterator

from benchmarks.job.timeline import list_rows, read_bundles


def log(*events: tuple[float, dict[str, object]]) -> Iterator[str]:
    for second, event in events:
        yield json.dumps({"time": f"2026-11-30T00:00:{second:09.6f}+00:00", **event})


def bundle(worker: str, stage: str, seconds: float) -> dict[str, object]:
    return {"event": "bundle_finished", "worker": worker, "stage": stage, "seconds": seconds}


def test_a_worker_that_waits() -> None:
    stage = "((PlanTasks/SpreadTasks/Read)+(ref_AppliedPTransform_PrepareDocuments-PrepareTask_7))"
    events = log(
        (0, {"event": "run_started", "workers": 2}),
        (1, {"message": "a line of a library"}),
        (3, bundle("worker_0", stage, 1)),
        (6, bundle("worker_1", stage, 4)),
        (8, {"event": "run_finished"}),
    )
    assert list(list_rows(*read_bundles(events))) == [
        ["PlanTasks + PrepareDocuments", "2.0", "4.0", "2", "38 %"],
        ["the run", "0.0", "8.0", "2", "69 %"],
    ]
