"""The progress line: what it takes from the counters, and where it is shown."""

import re
import time
from pathlib import Path

import apache_beam as beam

from pipeline.console.progress import Counters, Work
from pipeline.job_options import RunOptions
from pipeline.runners.engine import Run
from pipeline.runners.local.engine import LocalEngine
from tests.tools.forked_commands import show_on_terminal
from tests.tools.jobs import SPREAD, WORKERS
from transforms.tally import show

WORK = Work(bytes=1000, repeats=5)
JOB = ("bert", "--max-seq-length", "64", "--duplicates", "60", *SPREAD)


def test_counters_add_bundles_up_and_never_go_back() -> None:
    counters = Counters()
    counters.update("one", {"read.bytes": 10, "build.passes": 1})
    counters.update("two", {"read.bytes": 5})
    counters.update("one", {"read.bytes": 7})
    assert counters.totals()["read.bytes"] == 15
    assert counters.totals()["build.passes"] == 1
    assert counters.totals()["nothing"] == 0


def test_the_share_done_goes_from_nothing_to_all() -> None:
    counters, shares = Counters(), []
    for read, documents, passes in [
        (0, 0, 0), (500, 4, 0), (1000, 8, 0), (1000, 8, 20), (1000, 8, 40), (1200, 8, 40),
    ]:  # fmt: skip
        counters.update(
            "bundle", {"read.bytes": read, "tokenize.documents": documents, "build.passes": passes}
        )
        shares.append(WORK.done(counters))
    assert shares[0] == 0
    assert shares[:5] == sorted(set(shares[:5]))
    assert shares[4] == shares[5] == 1


def test_what_is_not_heard_of_a_resumed_run_is_not_taken_for_done() -> None:
    counters = Counters()
    counters.update("shard", {"build.passes": 20})
    assert (WORK.stage(counters), WORK.done(counters)) == ("build", 0.3)


def test_a_terminal_shows_bytes_examples_rate_and_time_left(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    # Beam asks for counters twice a second: a job must take some for any to be shown.
    text = tmp_path / "text"
    text.write_bytes(sample.read_bytes() * 60)
    arguments = (*WORKERS, "--tokenizer", tokenizer_path)
    shown = show_on_terminal(*JOB, *arguments, "--input", text, "--output", tmp_path / "out")
    line = r"\d+ %.*read \d\.\d of 3\.1 MB.*[1-9][\d,]* examples.*[1-9][\d,]* a second.*left"
    assert re.search(line, shown)


def test_nothing_is_shown_where_it_is_not_wanted(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    arguments = ("--input", sample, "--tokenizer", tokenizer_path, "--output", tmp_path / "out")
    assert show_on_terminal(*JOB, *arguments, "--no-progress") == ""


COUNTERS = Counters()


def count_until_it_is_seen(number: int) -> int:
    """Count bytes, and wait until the progress line knows of them."""
    before = COUNTERS.totals()["read.bytes"]
    show(("read.bytes", number))
    end = time.monotonic() + 30
    while COUNTERS.totals()["read.bytes"] == before and time.monotonic() < end:
        time.sleep(0.02)
    assert COUNTERS.totals()["read.bytes"] > before
    return number


def test_a_job_inside_this_process_is_followed_while_it_works() -> None:
    """As every job with less text than a worker process is worth."""

    def add_stages(pipeline: beam.Pipeline) -> None:
        _ = pipeline | beam.Create([7, 5]) | beam.Map(count_until_it_is_seen)

    show(("read.bytes", 1000))  # of another run
    LocalEngine(RunOptions()).submit(Run(add_stages, COUNTERS))
    assert COUNTERS.totals()["read.bytes"] == 12
