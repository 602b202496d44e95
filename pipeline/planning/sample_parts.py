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
    files: Sequence[InputFile], documents: DocumentOptions, num_bytes: int, folder: str
) -> list[SamplePart]:
    """Choose parts of a corpus, at even distances, of about so many bytes together.

    A file that cannot be read in ranges is read from its start; of a compressed one whose format
    has lines, the first lines are copied.

    Args:
        files: the corpus.
        documents: how it is read, with a format.
        num_bytes: size of the sample.
        folder: for copies.
    """
    full = [file for file in files if file.bytes]
    total = sum(file.bytes for file in full)
    if reads_in_ranges(documents) and all(file.splittable for file in full):
        return list(_cut(full, total, min(1.0, num_bytes / total)))
    step = max(1.0, len(full) / _PLACES)
    chosen = [full[int(place * step)] for place in range(min(_PLACES, len(full)))]
    share = -(-num_bytes // len(chosen))
    if documents.input_format in _OF_LINES:
        return [_copy(file, number, share, folder) for number, file in enumerate(chosen)]
    return [_read_whole(file, number, share) for number, file in enumerate(chosen)]


def read_files(files: Sequence[InputFile], num_bytes: int) -> list[SamplePart]:
    """Return whole files, of which only the first so many bytes of text are read in all."""
    full = [file for file in files if file.bytes][:_PLACES]
    return [_read_whole(file, n, -(-num_bytes // len(full))) for n, file in enumerate(full)]


def _read_whole(file: InputFile, number: int, text_bytes: int) -> SamplePart:
    end = file.bytes if file.splittable else None
    return SamplePart(PlannedRange(file.path, file.name, number, 0, end), None, text_bytes)


def _cut(files: Sequence[InputFile], total: int, share: float) -> Iterator[SamplePart]:
    """Yield the first bytes of each of equal stretches of the corpus: `share` of all bytes."""
    places = 1 if share == 1.0 else _PLACES
    stretches = [total * place // places for place in range(places + 1)]
    ends = list(accumulate(file.bytes for file in files))
    for begin, after in pairwise(stretches):
        stop = min(after, begin + max(1, int((after - begin) * share)))
        for number, (file, end) in enumerate(zip(files, ends, strict=True)):
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
