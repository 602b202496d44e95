"""Two of everything at once: one of them works, and the other one removes nothing of it."""

import json
import signal
import time
from collections.abc import Sequence
from threading import Event
from types import SimpleNamespace

import pytest

from tests.stores.conftest import Corpus
from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import run_any, run_here, wait_for
from tests.tools.object_stores import Bucket, Request
from tests.tools.stored_objects import read_objects, write_objects

_TRIES = 3


@pytest.mark.parametrize("flags", [(), ("--resume",), ("--replace",), ("--append",)])
def test_of_two_at_once_one_works_and_the_other_one_removes_nothing(
    bucket: Bucket, corpus: Corpus, flags: Sequence[str]
) -> None:
    appends = "--append" in flags
    text = corpus.second if appends else corpus.first
    if appends:
        run_here(*corpus.build(bucket))
    before, states = read_objects(bucket), list[dict[str, bytes]]()
    bucket.proxy.on_change = lambda _: states.append(read_objects(bucket))
    # The claim of a process that lives on would be taken for that of a run at work.
    done = wait_for(ForkedCommand(corpus.build(bucket, *(flags if appends else ()), text=text)))
    assert done.status == 0, done.errors
    bucket.proxy.clear()
    expected = read_objects(bucket)
    begin = states[len(states) // 3] if "--resume" in flags else before
    for _ in range(_TRIES):
        write_objects(bucket, begin)
        command = corpus.build(bucket, *flags, text=text)
        outcomes = [wait_for(each) for each in [ForkedCommand(command) for _ in range(2)]]
        statuses = sorted(outcome.status for outcome in outcomes)
        assert statuses in ([0, 0], [0, 2]), outcomes
        if statuses == [0, 2] or not appends:
            assert read_objects(bucket) == expected, outcomes
    if not flags:
        assert run_any(*corpus.build(bucket, "--resume")).status == 0


@pytest.mark.parametrize(
    ("moment", "way"),
    [("corpusmill-run.json", "--replace"), ("done-task", "--resume"), ("shard-", "--replace")],
)
def test_a_run_on_another_machine_is_left_alone_until_it_is_silent(
    bucket: Bucket, corpus: Corpus, moment: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(*corpus.build(bucket))
    expected, stopped = read_objects(bucket), Event()
    write_objects(bucket, {})

    def stop(request: Request) -> None:
        if moment in request.path + request.name and not stopped.is_set():
            first.send_signal(signal.SIGSTOP)
            stopped.set()

    bucket.proxy.on_change = stop
    first = ForkedCommand(corpus.build(bucket))
    while not stopped.wait(0.1):
        assert first.poll() is None
    bucket.proxy.clear()
    state = read_objects(bucket)
    claim = json.loads(state["out/_RUNNING"]) | {"host": "another"}
    write_objects(bucket, state | {"out/_RUNNING": json.dumps(claim).encode()})
    state = read_objects(bucket)
    for flag in ("--replace", "--resume"):
        cause = f"(process {first.pid} on another) writes there; its last sign of life is"
        run_here(*corpus.build(bucket, flag), refused=(cause,))
        assert read_objects(bucket) == state
    later = SimpleNamespace(time=lambda: time.time() + 310)
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.folders.output.time", later)
        run_here(*corpus.build(bucket, way))
    assert read_objects(bucket) == expected
    first.send_signal(signal.SIGCONT)
    outcome = wait_for(first)
    assert outcome.status != 0
    assert "Traceback" not in outcome.errors
    assert read_objects(bucket) == expected
