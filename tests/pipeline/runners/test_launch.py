"""What a job is worth, before it is given to an engine."""

import pytest
from rich.console import Console

from pipeline.console.progress import Work
from pipeline.console.run_log import LogOptions
from pipeline.job_options import RunOptions
from pipeline.runners.launch import Launch
from pipeline.runners.local.engine import LocalEngine, Worker


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
