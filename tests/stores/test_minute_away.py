"""A store that is away for a minute, at any moment of a build."""

import time

import pytest

from tests.stores.conftest import Corpus
from tests.tools.jobs import run_here
from tests.tools.object_stores import Bucket, Request
from tests.tools.stored_objects import read_objects, write_objects

_SECONDS = 60.0


@pytest.mark.parametrize("fault", ["refused", "503"])
@pytest.mark.parametrize("moment", [0.3, 0.8])
def test_a_build_waits_out_an_outage_of_a_minute(
    bucket: Bucket, corpus: Corpus, fault: str, moment: float
) -> None:
    run_here(*corpus.build(bucket))
    expected, number = read_objects(bucket), len(bucket.proxy.requests)
    write_objects(bucket, {})
    bucket.proxy.clear()
    began: list[float] = []

    def judge(_: Request) -> str | None:
        if len(bucket.proxy.requests) < moment * number:
            return None
        began.append(time.monotonic())
        return fault if began[-1] - began[0] < _SECONDS else None

    bucket.proxy.fault = judge
    run_here(*corpus.build(bucket))
    assert began[-1] - began[0] > _SECONDS
    assert read_objects(bucket) == expected


def test_what_a_longer_outage_ends_is_resumed_and_was_no_mistake_of_the_users(
    bucket: Bucket, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(*corpus.build(bucket))
    expected = read_objects(bucket)
    write_objects(bucket, {})
    monkeypatch.setattr("corpusmill.outages._SECONDS", 1.0)
    bucket.proxy.clear()
    state = {"away": False}

    def judge(request: Request) -> str | None:
        names = request.path + request.name
        state["away"] = state["away"] or (request.changes and "done-shard" in names)
        return "refused" if state["away"] else None

    bucket.proxy.fault = judge
    outcome = run_here(*corpus.build(bucket), status=1)
    assert "cannot be reached" in outcome.errors
    assert "--resume" in outcome.errors
    bucket.proxy.clear()
    run_here(*corpus.build(bucket, "--resume"))
    assert read_objects(bucket) == expected
