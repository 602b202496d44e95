"""A pipeline in this process does what Beam's own runner does with it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsIter, AsList, AsSingleton, TaggedOutput
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from pipeline.runners.beam_pipelines import new_pipeline
from pipeline.runners.local.in_process import InProcessRunner

_RUNNERS = (FnApiRunner(), InProcessRunner())
RUNNERS = pytest.mark.parametrize("runner", _RUNNERS, ids=["beam", "here"])


class _Sort(beam.DoFn):
    """Gives odd numbers a tag, counts all, and ends with their number."""

    def setup(self) -> None:
        self._number = 0

    def process(self, element: int) -> Iterator[Any]:
        self._number += 1
        yield TaggedOutput("odd", element) if element % 2 else element

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield WindowedValue(-self._number, -1, [GlobalWindow()])


def _pair(element: int, low: int, all_of_them: list[int], *, more: Any) -> tuple[int, int, int]:
    return element - low, len(all_of_them), sum(more)


@RUNNERS
def test_side_inputs_are_whole_before_a_do_fn_sees_them(runner: Any) -> None:
    with TestPipeline(runner=runner) as pipeline:
        numbers = pipeline | "Numbers" >> beam.Create([3, 5, 9])
        low = numbers | "Least" >> beam.CombineGlobally(min)
        more = numbers | "Double" >> beam.Map(lambda number: 2 * number)
        paired = numbers | "Pair" >> beam.Map(
            _pair, AsSingleton(low), AsList(numbers), more=AsIter(more)
        )
        assert_that(paired, equal_to([(0, 3, 34), (2, 3, 34), (6, 3, 34)]))


@RUNNERS
def test_a_side_input_without_an_element_has_its_default(runner: Any) -> None:
    with TestPipeline(runner=runner) as pipeline:
        none = pipeline | "None" >> beam.Create([])
        one = pipeline | "One" >> beam.Create([1])
        seen = one | beam.Map(lambda number, other: number + other, AsSingleton(none, 4))
        assert_that(seen, equal_to([5]))


@RUNNERS
def test_each_output_of_a_do_fn_has_its_elements(runner: Any) -> None:
    with TestPipeline(runner=runner) as pipeline:
        # They are in one bundle, so that their number is known.
        whole = pipeline | beam.Create([[1, 2, 3, 4, 6]]) | beam.FlatMap(list)
        sorted_out = whole | beam.ParDo(_Sort()).with_outputs("odd", main="even")
        kept = sorted_out["even"] | beam.Filter(lambda number: number > 0)
        assert_that(kept, equal_to([2, 4, 6]), label="Even")
        assert_that(sorted_out["odd"], equal_to([1, 3]), label="Odd")


def test_a_do_fn_ends_with_what_finish_bundle_yields() -> None:
    with TestPipeline(runner=InProcessRunner()) as pipeline:
        sorted_out = pipeline | beam.Create([2, 4]) | beam.ParDo(_Sort())
        assert_that(sorted_out, equal_to([2, 4, -2]))


@RUNNERS
def test_groups_sums_and_joined_collections(runner: Any) -> None:
    with TestPipeline(runner=runner) as pipeline:
        left = pipeline | "Left" >> beam.Create([("a", 1), ("b", 2), ("a", 3)])
        right = pipeline | "Right" >> beam.Create([("b", 5)])
        both = (left, right) | beam.Flatten() | beam.Reshuffle()
        grouped = both | beam.GroupByKey() | beam.MapTuple(lambda key, found: (key, sorted(found)))
        assert_that(grouped, equal_to([("a", [1, 3]), ("b", [2, 5])]), label="Grouped")
        assert_that(both | beam.CombinePerKey(sum), equal_to([("a", 4), ("b", 7)]), label="Added")
        joined = {"left": left, "right": right} | beam.CoGroupByKey()
        sizes = joined | beam.MapTuple(lambda key, found: (key, len(found["right"])))
        assert_that(sizes, equal_to([("a", 0), ("b", 1)]), label="Joined")


def _trace(shuffled: bool) -> list[str]:
    """Return the order in which two stages see three elements."""
    seen: list[str] = []

    def note(element: int, stage: str) -> int:
        seen.append(f"{stage} {element}")
        return element

    # Beam pickles functions, and what they hold; what is called by reference stays here.
    def run(stage: str) -> beam.ParDo:
        transform = beam.ParDo(_Noting())
        transform.fn.note = lambda element: note(element, stage)
        return transform

    pipeline = beam.Pipeline(runner=InProcessRunner())
    collection = pipeline | beam.Create([[1, 2, 3]]) | beam.FlatMap(list) | "First" >> run("first")
    if shuffled:
        collection |= beam.Reshuffle()
    _ = collection | "Second" >> run("second")
    pipeline.run().wait_until_finish()
    return seen


class _Noting(beam.DoFn):
    note: Any = None

    def process(self, element: int) -> Iterator[int]:
        yield self.note(element)


def test_elements_go_on_as_they_come_and_wait_at_a_reshuffle() -> None:
    first, second = [f"first {n}" for n in (1, 2, 3)], [f"second {n}" for n in (1, 2, 3)]
    assert _trace(shuffled=False) == [stage[n] for n in range(3) for stage in (first, second)]
    assert _trace(shuffled=True) == [*first, *second]


def test_a_pipeline_has_no_folder_that_a_killed_process_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for runner in _RUNNERS:
        pipeline = new_pipeline(runner=runner)
        _ = pipeline | beam.Create([0])
        assert list(tmp_path.iterdir()) == []
        pipeline.run()


def test_a_stage_that_fails_raises_its_own_error() -> None:
    pipeline = beam.Pipeline(runner=InProcessRunner())
    _ = pipeline | beam.Create([0]) | beam.Map(lambda number: 1 // number)
    with pytest.raises(ZeroDivisionError):
        pipeline.run()


def test_a_transform_of_another_kind_is_refused_by_its_label() -> None:
    pipeline = beam.Pipeline(runner=InProcessRunner())
    _ = pipeline | "Read" >> beam.io.ReadFromText("none", validate=False)
    with pytest.raises(NotImplementedError, match="Read"):
        pipeline.run()
