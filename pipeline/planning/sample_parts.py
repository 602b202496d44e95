"""The parts of a corpus that make a small sample of it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from corpusmill.corpus.decompression import DamagedStreamError, open_decompressed
from corpusmill.corpus.input_formats import reads_in_ranges
from corpusmill.corpus.options import DocumentOptions
from pipeline.preparation.inputs import InputFile
from transforms.ranges import PlannedRange
from transforms.storage.files import open_file

# So many places of a corpus are read, at even distances.
_PLACES = 8
# Files of these formats can be cut after a line.
_OF_LINES = {"text", "lines", "json-lines", "csv", "tsv"}
_BLOCK_BYTES = 2**20


class SamplePart(NamedTuple):
    """A part of a file.

    Attributes:
        range: the part.
        stored_bytes: how many bytes of the input it stands for; None if that is counted as it is
            read.
        text_bytes: after so many bytes of text its reading stops; None for a part that is read to
            its end.
    """

    range: PlannedRange
    stored_bytes: int | None
    text_bytes: int | None


def choose_parts(
    files: Sequence[InputFile], documents: DocumentOptions, num_bytes: int, folder: str,
    in_ranges: bool = True,
) -> list[SamplePart]:  # fmt: skip
    """Choose parts of a corpus, at even distances, of about so many bytes together.

    A file that cannot be read in ranges is read from its start; of one whose format has lines, the
    first lines are copied.

    Args:
        files: the corpus.
        documents: how it is read, with a format.
        num_bytes: size of the sample.
        folder: for copies.
        in_ranges: whether parts may begin within files that can be read in ranges.
    """
    # Files keep their numbers, of which ids of documents are made.
    full = [(number, file) for number, file in enumerate(files) if file.bytes]
    if in_ranges and reads_in_ranges(documents) and all(file.splittable for _, file in full):
        return list(_cut(full, num_bytes))
    chosen = full[:: -(-len(full) // _PLACES)]
    share = -(-num_bytes // len(chosen))
    if documents.input_format in _OF_LINES:
        return [_copy(file, number, share, folder) for number, file in chosen]
    return [_read_whole(file, number, share) for number, file in chosen]


def _read_whole(file: InputFile, number: int, text_bytes: int) -> SamplePart:
    end = file.bytes if file.splittable else None
    return SamplePart(PlannedRange(file.path, file.name, number, 0, end), None, text_bytes)


def _cut(files: Sequence[tuple[int, InputFile]], num_bytes: int) -> Iterator[SamplePart]:
    """Yield the first bytes of each of equal stretches of the corpus, or all of a small one."""
    ends = list(accumulate(file.bytes for _, file in files))
    share, places = min(1.0, num_bytes / ends[-1]), 1 if num_bytes >= ends[-1] else _PLACES
    for begin, after in pairwise(ends[-1] * place // places for place in range(places + 1)):
        stop = min(after, begin + max(1, int((after - begin) * share)))
        for (number, file), end in zip(files, ends, strict=True):
            start = end - file.bytes
            first, last = max(begin, start) - start, min(stop, end) - start
            if first < last:
                planned = PlannedRange(file.path, file.name, number, first, last)
                yield SamplePart(planned, None, None)


def _copy(file: InputFile, number: int, num_bytes: int, folder: str) -> SamplePart:
    """Copy the first lines of a file, decompressed."""
    content = b""
    with open_file(file.path) as raw:
        with suppress(DamagedStreamError):
            stream = open_decompressed(raw, file.path)
            while len(content) < num_bytes and (block := stream.read(_BLOCK_BYTES)):
                content += block
        stored = file.bytes if len(content) < num_bytes else raw.tell()
    if len(content) >= num_bytes:
        kept = content.rfind(b"\n", 0, num_bytes) + 1 or len(content)
        content, stored = content[:kept], round(stored * kept / len(content))
    path = Path(folder) / f"copy-{number}"
    path.write_bytes(content)
    planned = PlannedRange(str(path), file.name, number, 0, len(content))
    return SamplePart(planned, min(stored, file.bytes), None)
