"""Two of everything at once: one of them works, and the other one removes nothing of it."""

from collections.abc import Sequence

import pytest

from tests.stores.conftest import Corpus
from tests.tools.forked_commands import ForkedCommand
from tests.tools.jobs import run_any, run_here, wait_for
from tests.tools.object_stores import Bucket
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
