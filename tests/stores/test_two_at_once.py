"""Two of everything at once: one of them works, and the other one removes nothing of it."""

import json
import signal
from collections.abc import Mapping, Sequence
from threading import Event

import pytest

from corpusmill.dataset.manifest_entries import base_name
from corpusmill.dataset.manifest_json import decode
from tests.stores.conftest import Corpus
from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import run_any, run_here, wait_for
from tests.tools.object_stores import Bucket, Request
from tests.tools.stored_objects import read_objects, write_objects

_TRIES = 3


def _shards(objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the shards of a data set, by their names without the version."""
    names = {name.removeprefix("out/"): name for name in objects if name.startswith("out/v")}
    return {base_name(short): objects[name] for short, name in names.items()
            if "/train" in short or "/validation" in short}  # fmt: skip


def _assert_whole(bucket: Bucket, expected: Mapping[str, bytes], twice: object = None) -> None:
    """Check that a bucket has nothing but a data set with the expected shards, or text twice."""
    objects = read_objects(bucket)
    if twice is None:
        assert _shards(objects) == _shards(expected)
    manifest = decode(objects["out/dataset.json"], "out")
    listed = {*manifest.entries, *manifest.copies, "dataset.json", "_SUCCESS"}
    rest = {name.removeprefix("out/") for name in objects if name.startswith("out/")} - listed
    assert all(name.endswith("/_files.json") for name in rest), sorted(rest)


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
    # What a process that lives on says of itself would be taken for that of a run at work.
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
        assert statuses in ([0, 0], [0, 1], [0, 2]), outcomes
        _assert_whole(bucket, expected, outcomes if statuses == [0, 0] and appends else None)
    if not flags:
        assert run_any(*corpus.build(bucket, "--resume")).status == 0


def _stop_at(moment: str, bucket: Bucket, command: Sequence[str]) -> ForkedCommand:
    """Start a command, and stop it before it changes an object whose name has the given part."""
    stopped = Event()

    def stop(request: Request) -> None:
        if moment in request.path + request.name and not stopped.is_set():
            process.send_signal(signal.SIGSTOP)
            stopped.set()

    bucket.proxy.on_change = stop
    process = ForkedCommand(command)
    while not stopped.wait(0.1):
        assert process.poll() is None
    return process


@pytest.mark.parametrize(
    ("resumes", "moment", "way"),
    [
        ((), "corpusmill-run.json", "--replace"),
        ((), "done-task", "--resume"),
        # It wakes and writes its first files once more where the other one has removed them.
        (("--resume",), "plan.jsonl", "--resume"),
        ((), "train-", "--replace"),
    ],
)
def test_a_run_on_another_machine_is_left_alone_until_somebody_says_that_it_has_ended(
    bucket: Bucket, corpus: Corpus, resumes: Sequence[str], moment: str, way: str
) -> None:
    if resumes:
        killed = _stop_at("done-task", bucket, corpus.build(bucket))
        killed.kill()
        wait_for(killed)
    first = _stop_at(moment, bucket, corpus.build(bucket, *resumes))
    bucket.proxy.clear()
    state, name = read_objects(bucket), "out/v1/_run.json"
    run = json.loads(state[name]) | {"host": "another"}
    write_objects(bucket, state | {name: json.dumps(run).encode()})
    state = read_objects(bucket)
    run_here(*corpus.build(bucket), refused=(f"(process {first.pid} on another)", "--resume"))
    assert read_objects(bucket) == state
    run_here(*corpus.build(bucket, way))
    expected = read_objects(bucket)
    first.send_signal(signal.SIGCONT)
    outcome = wait_for(first)
    # What the other one has finished is what it was to build.
    assert outcome.status == (0 if way == "--resume" else 1), outcome
    assert "Traceback" not in outcome.errors
    assert read_objects(bucket) == expected
    run_here("verify", f"{bucket.url}/out", "--", *bucket.beam_arguments)
