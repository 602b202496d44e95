"""Parts of a stage's input are dealt to workers as these become idle."""

import time
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder
from apache_beam.runners.portability.fn_api_runner.execution import ListBuffer

from pipeline.console.progress import Counters
from pipeline.job_options import RunOptions
from pipeline.runners.engine import Run
from pipeline.runners.local.engine import LocalEngine
from pipeline.runners.local.submission import Deal, cut_inputs, join_parts

PARTS = [{"in": [bytes([number])]} for number in range(8)]
FOR_EVER = float("inf")


def numbers(deal: Deal, seconds: float) -> list[int]:
    return [part["in"][0][0] for part in deal.take(seconds)]


def test_long_parts_are_dealt_one_by_one_and_short_ones_by_equal_shares() -> None:
    deal = Deal(PARTS, workers=2)
    taken = [numbers(deal, seconds) for seconds in (FOR_EVER, 1, 0.05, 0, 0.0001, 1, 1)]
    assert taken == [[0], [1], [2, 3], [4, 5], [6], [7], []]


def test_nothing_is_left_after_a_failure() -> None:
    deal = Deal(PARTS, workers=2)
    deal.take(FOR_EVER)
    deal.end()
    assert deal.take(FOR_EVER) == []


def make_buffer(*elements: str) -> ListBuffer:
    coder = StrUtf8Coder().get_impl()
    buffer = ListBuffer(coder)
    for element in elements:
        buffer.append(coder.encode_nested(element))
    return buffer


def test_all_elements_are_in_some_part_and_empty_parts_are_left_out() -> None:
    parts = cut_inputs({"a": make_buffer("x", "y", "z"), "b": make_buffer("u")}, 4)
    assert len(parts) == 3
    joined = join_parts(parts)
    assert (b"".join(joined["a"]), b"".join(joined["b"])) == (b"\1x\1y\1z", b"\1u")


def test_a_stage_without_elements_has_one_part() -> None:
    assert len(cut_inputs({"a": make_buffer()}, 4)) == 1


def run(stage: beam.PTransform, *elements: int) -> Counters:
    """Run a stage with two workers."""

    def add_stages(pipeline: beam.Pipeline) -> None:
        _ = pipeline | beam.Create(elements, reshuffle=False) | beam.Reshuffle() | stage

    engine, counters = LocalEngine(RunOptions(workers=2, min_bytes_per_worker=0)), Counters()
    engine.submit(Run(add_stages, counters, workers=engine.start_workers(0)))
    return counters


def mark(folder: str, others: int) -> Callable[[int], int]:
    """Make a function that marks its number; that of number 0 waits for all other marks."""

    def work(number: int) -> int:
        end = time.monotonic() + 60
        while number == 0 and len([*Path(folder).iterdir()]) < others:
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.05)
        Path(folder, str(number)).touch()
        return number

    return work


def test_one_worker_does_the_rest_while_another_is_busy(tmp_path: Path) -> None:
    run(beam.Map(mark(str(tmp_path), 15)), *range(16))
    assert len([*tmp_path.iterdir()]) == 16


def fail(number: int) -> int:
    if number == 7:
        raise ValueError(f"number {number}")
    return number


def test_a_failure_of_one_bundle_fails_the_job() -> None:
    with pytest.raises(RuntimeError, match="number 7"):
        run(beam.Map(fail), *range(16))
