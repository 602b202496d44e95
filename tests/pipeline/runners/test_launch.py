"""What a job is worth, before it is given to an engine."""

import resource

import pytest
from rich.console import Console

from corpusmill.errors import UserError
from pipeline.console.progress import Work
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions
from pipeline.runners.engine import Worker
from pipeline.runners.launch import Launch
from pipeline.runners.local.engine import LocalEngine


class _Started(Exception):  # noqa: N818  not an error, but how far the job gets
    """Says for how much text workers were started."""


class _Counting(LocalEngine):
    def start_workers(self, text_bytes: int) -> list[Worker]:
        raise _Started(self.count_workers(text_bytes))


@pytest.mark.parametrize(("shards", "workers"), [(1, 0), (100, 0), (300, 1), (1833, 2)])
def test_many_small_shards_are_worth_workers_whatever_their_text(shards: int, workers: int) -> None:
    launch = Launch(_Counting(RunOptions(workers=2)), Console(), LogOptions())
    work = Work(1000, 1, tasks=1, shards=shards)
    with pytest.raises(_Started, match=f"^{workers}$"):
        launch.run(lambda _: None, work, 1000, "", lambda: False)


@pytest.mark.parametrize(
    ("limit", "is_refused"), [(10**9, True), (2 * 10**9, False), (resource.RLIM_INFINITY, False)]
)
def test_too_few_addresses_for_the_libraries_are_refused(
    limit: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, resource.RLIM_INFINITY))
    engine = LocalEngine(RunOptions(workers=2))
    if not is_refused:
        engine.check()
        return
    with pytest.raises(UserError, match=r"^ulimit -v 976562: .* at least 1.4 GB"):
        engine.check()
