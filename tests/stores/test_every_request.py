"""Commands that are killed just before a request that changes a bucket, and given again.

What their messages advise is done by program, as in `tests/kills`.
"""

from collections.abc import Sequence

import pytest

from tests.stores.conftest import Corpus
from tests.tools.jobs import Outcome, run_any
from tests.tools.object_stores import Bucket
from tests.tools.stored_objects import read_objects, write_objects

_MOMENTS = 17
_MOST_TRIES = 5
_STRANGER = {"out/notes.txt": b"somebody's", "other/x": b"somebody's, too"}


@pytest.mark.parametrize("kind", ["build", "replace", "append"])
def test_a_command_that_is_killed_at_any_request_ends_as_if_it_had_not_been(
    bucket: Bucket, corpus: Corpus, kind: str
) -> None:
    flags = {"build": (), "replace": ("--seed", "2", "--replace"), "append": ("--append",)}[kind]
    text = corpus.second if kind == "append" else corpus.first
    write_objects(bucket, {"other/x": b"somebody's"})
    if kind != "build":
        assert run_any(*corpus.build(bucket)).status == 0
    states: list[dict[str, bytes]] = []
    bucket.proxy.on_change = lambda _: states.append(read_objects(bucket))
    outcome = run_any(*corpus.build(bucket, *flags, text=text))
    bucket.proxy.clear()
    assert outcome.status == 0, outcome.errors
    expected = read_objects(bucket)
    for moment in sorted({len(states) * k // _MOMENTS for k in range(_MOMENTS)}):
        write_objects(bucket, states[moment])
        way: Sequence[str] = [(), ("--resume",)][moment % 2]
        for _ in range(_MOST_TRIES):
            given = [*(flag for flag in flags if not way or flag != "--replace"), *way]
            outcome = run_any(*corpus.build(bucket, *given, text=text))
            if outcome.status == 0 or read_objects(bucket) == expected:
                break
            way = _advised(outcome)
        left = read_objects(bucket)
        different = [n for n in left.keys() | expected if left.get(n) != expected.get(n)]
        assert different == [], f"request {moment} of {len(states)}: {outcome.errors}"


def _advised(outcome: Outcome) -> Sequence[str]:
    message = outcome.errors
    if "--resume" in message and "Leave --resume out" not in message:
        return ["--resume"]
    if "--replace" in message:
        return ["--replace"]
    return []
