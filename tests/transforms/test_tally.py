import apache_beam as beam
import numpy as np

from transforms.tally import COUNTS, SKETCHES, Count, Sketch, Tally, add_up, limit_distinct
from transforms.testing import collect, local_pipeline


def test_counts_add_up_and_equal_rows_count_once() -> None:
    units = []
    for hashes in ([5, 9, 5], [9, 2**64 - 1], [0]):
        tally = Tally()
        tally.add("write.rows", len(hashes))
        tally.add_distinct("write.distinct_rows", np.array(hashes, np.uint64))
        units += list(tally.outputs())
    with local_pipeline() as pipeline:
        counts, sketches = (
            pipeline
            | tag >> beam.Create([value for kind, value in units if kind == tag])
            .with_output_types(hint)
            for tag, hint in ((COUNTS, Count), (SKETCHES, Sketch))
        )  # fmt: skip
        totals = collect(add_up([counts], [sketches]))
    assert dict(totals) == {"write.rows": 6, "write.distinct_rows": 4}


def test_estimates_are_no_larger_than_the_whole() -> None:
    for distinct, limited in ((6, 6), (7, 7), (9, 7)):
        counts = {"write.rows": 7, "write.distinct_rows": distinct, "read.lines": 3}
        assert limit_distinct(counts) == {**counts, "write.distinct_rows": limited}
