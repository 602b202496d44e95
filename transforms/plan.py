"""The plan: which stretch of which file each call reads."""

from collections.abc import Iterator, Sequence

import apache_beam as beam

from transforms.elements import FileRange


def cut_ranges(
    files: Sequence[tuple[str, str, int, bool]], range_bytes: int
) -> Iterator[FileRange]:
    """Cut files into ranges of equal size, at most `range_bytes` long.

    Args:
        files: path, name, bytes, and whether the file can be cut, in the order that numbers them.
        range_bytes: upper bound.
    """
    number = 0
    for file_index, (path, name, size, splittable) in enumerate(files):
        if not splittable:
            yield FileRange(number, path, name, file_index, 0, -1)
            number += 1
            continue
        pieces = max(1, -(-size // range_bytes))
        for piece in range(pieces):
            start, end = size * piece // pieces, size * (piece + 1) // pieces
            yield FileRange(number, path, name, file_index, start, end)
            number += 1


class PlanRanges(beam.PTransform):
    """Give the ranges of the plan, spread over all workers.

    Args:
        ranges: the plan.
    """

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        super().__init__()
        self._ranges = list(ranges)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[FileRange]:
        """Create the ranges and break the fusion behind them."""
        return (
            begin
            | "CreateRanges" >> beam.Create(self._ranges).with_output_types(FileRange)
            | "SpreadRanges" >> beam.Reshuffle()
        )

    def display_data(self) -> dict[str, int]:
        """How much there is to read."""
        return {"ranges": len(self._ranges)}
