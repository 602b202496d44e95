"""Each check of a pipeline's proto, on a pipeline that is broken in that one way."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.userstate import BagStateSpec

from pipeline.runners.beam_pipelines import new_pipeline
from tests.tools import proto_checks
from tests.tools.proto_checks import LARGEST_PAYLOAD, find_faults
from tests.tools.table_rows import for_rows


class Plain:
    """A class for which Beam knows no coder."""


class Loose:
    """A key whose bytes may differ."""


class LooseCoder(coders.Coder):
    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> type:
        return Loose


coders.registry.register_coder(Loose, LooseCoder)


class Pair(NamedTuple):
    left: int
    right: int


class KeepState(beam.DoFn):
    SEEN = BagStateSpec("seen", coders.VarIntCoder())

    def process(
        self,
        element: tuple[int, int],
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008  Beam reads it there
    ) -> Iterator[int]:
        seen.add(element[1])
        yield element[1]


class Halves(beam.transforms.core.RestrictionProvider):
    def create_tracker(self, restriction: Any) -> Any:
        return restriction

    def initial_restriction(self, element: Any) -> Any:
        return element

    def restriction_size(self, _: Any, __: Any) -> int:
        return 1


class SplitElements(beam.DoFn):
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Halves()),  # noqa: ARG002, B008  likewise
    ) -> Iterator[int]:
        yield element


class CarryMuch(beam.DoFn):
    def __init__(self) -> None:
        self.much = os.urandom(2 * LARGEST_PAYLOAD)  # what is pickled is compressed

    def process(self, element: int) -> Iterator[int]:
        yield element


class ReadBeside(beam.DoFn):
    def process(self, element: Any, beside: Any) -> Iterator[int]:  # noqa: ARG002  it is read
        yield element


def largest(values: Iterable[int]) -> int:
    return max(values)


def numbers(pipeline: beam.Pipeline) -> beam.PCollection[int]:
    return pipeline | "Numbers" >> beam.Create([1, 2]).with_output_types(int)


def good(pipeline: beam.Pipeline) -> None:
    """All that ours have: a shuffle, keys, sums, a path beside, a last stage that reads all."""
    spread = numbers(pipeline) | "Spread" >> beam.Reshuffle()
    keyed = spread | "Key" >> beam.Map(lambda n: (n, n)).with_output_types(tuple[int, int])
    sums = keyed | "Sum" >> beam.CombinePerKey(largest)
    path = pipeline | "Path" >> beam.Create(["path"])
    read = beam.ParDo(ReadBeside(), beam.pvalue.AsSingleton(path)).with_output_types(int)
    _ = spread | "Read" >> read
    last = beam.ParDo(ReadBeside(), beam.pvalue.AsList(sums)).with_output_types(int)
    _ = pipeline | "Once" >> beam.Impulse() | "Last" >> last


def pickled(pipeline: beam.Pipeline) -> None:
    _ = numbers(pipeline) | "Bad" >> beam.Map(lambda _: Plain()).with_output_types(Plain)


def pickled_within(pipeline: beam.Pipeline) -> None:
    typed = beam.Map(lambda n: (n, Plain())).with_output_types(tuple[int, Plain])
    _ = numbers(pipeline) | "Bad" >> typed


def key_of_many_bytes(pipeline: beam.Pipeline) -> None:
    typed = beam.Map(lambda n: (Loose(), n)).with_output_types(tuple[Loose, int])
    _ = numbers(pipeline) | "Key" >> typed | "Bad" >> beam.GroupByKey()


def stateful(pipeline: beam.Pipeline) -> None:
    keyed = numbers(pipeline) | beam.Map(lambda n: (n, n)).with_output_types(tuple[int, int])
    _ = keyed | "Bad" >> beam.ParDo(KeepState()).with_output_types(int)


def splittable(pipeline: beam.Pipeline) -> None:
    _ = numbers(pipeline) | "Bad" >> beam.ParDo(SplitElements()).with_output_types(int)


def large(pipeline: beam.Pipeline) -> None:
    _ = numbers(pipeline) | "Bad" >> beam.ParDo(CarryMuch()).with_output_types(int)


def data_beside(pipeline: beam.Pipeline) -> None:
    collection = numbers(pipeline)
    pairs = collection | "Pairs" >> beam.Map(lambda n: Pair(n, n)).with_output_types(Pair)
    read = beam.ParDo(ReadBeside(), beam.pvalue.AsList(pairs)).with_output_types(int)
    _ = collection | "Bad" >> read


def endless(pipeline: beam.Pipeline) -> None:
    _ = numbers(pipeline) | "Bad" >> beam.Map(lambda n: n).with_output_types(int)


BROKEN = [
    (pickled, "its elements are pickled"),
    (pickled_within, "its elements are pickled"),
    (key_of_many_bytes, "equal keys may have different bytes on different workers"),
    (stateful, "the DoFn keeps state"),
    (splittable, "the DoFn splits its elements"),
    (large, "the DoFn has "),
    (data_beside, "which holds more than paths"),
]


def proto_of(build: Callable[[beam.Pipeline], None]) -> beam_runner_api_pb2.Pipeline:
    # Else Beam itself refuses such keys, or pickles them.
    pipeline = new_pipeline(argv=["--allow_non_deterministic_key_coders"])
    build(pipeline)
    return pipeline.to_runner_api()


def test_a_pipeline_like_ours_has_no_faults() -> None:
    assert find_faults(proto_of(good)) == []


@for_rows(("build", "what"), BROKEN)
def test_what_is_broken_is_found_where_it_is(
    build: Callable[[beam.Pipeline], None], what: str
) -> None:
    faults = find_faults(proto_of(build))
    assert any("Bad" in fault.place and what in fault.what for fault in faults), faults


def test_a_collection_without_end_is_found() -> None:
    proto = proto_of(endless)
    [collection] = [
        pcollection
        for pcollection in proto.components.pcollections.values()
        if "Bad" in pcollection.unique_name
    ]
    collection.is_bounded = beam_runner_api_pb2.IsBounded.UNBOUNDED
    [fault] = find_faults(proto)
    assert "Bad" in fault.place
    assert fault.what == "the collection is unbounded"


def test_a_pipeline_that_no_service_takes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto_checks, "LARGEST_PIPELINE", 1000)
    assert [fault.place for fault in find_faults(proto_of(good))] == ["the pipeline"]
