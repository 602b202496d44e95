"""Text and JSON lines to documents: the readers beside a bare loop over the same file, on one core.

    python -m benchmarks.kernels.reading [--bytes 50000000] [--rounds 7] [--only JSON]

The text is synthetic; "Cyrillic" is the same text with other letters. The bare loop is
`for line in stream: orjson.loads(line)["text"]`, or `line.strip().decode()` for plain text: it
makes no documents, counts nothing and keeps nothing. Each round reads every file both ways. Rates
are from medians of processor time, which counts every thread that a library starts.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import orjson
import pyarrow as pa

from benchmarks.builds import MEGABYTE
from benchmarks.console import make_parser, print_table
from benchmarks.measure import median_ratio, take_turns, time_call
from benchmarks.synthetic.corpus import write_corpus
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_corpus

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_CYRILLIC = {ord(letter): chr(0x430 + number) for number, letter in enumerate(_LATIN)} | {
    ord(letter): chr(0x410 + number) for number, letter in enumerate(_LATIN.upper())
}


class Case(NamedTuple):
    """A row of the table.

    Attributes:
        name: of the row.
        path: of the file.
        options: for the reader.
        bare: the bare loop over the file.
    """

    name: str
    path: Path
    options: DocumentOptions
    bare: Callable[[Path], None]


def bare_json(path: Path) -> None:
    """Parse every line and look up its text."""
    with path.open("rb") as stream:
        for line in stream:
            orjson.loads(line)["text"]


def bare_lines(path: Path) -> None:
    """Strip and decode every line."""
    with path.open("rb") as stream:
        for line in stream:
            line.strip().decode()


def read_all(case: Case) -> None:
    """Read the file as the job does."""
    size = case.path.stat().st_size
    with case.path.open("rb") as stream:
        for _ in read_corpus(stream, FileRange(str(case.path), 0, case.options, 0, size)):
            pass


def cut_text(text: str, characters: int) -> Iterator[str]:
    """Yield the text in pieces of whole lines, each with at least `characters` characters."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + characters)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def encode_record(number: int, text: str, fields: bool) -> bytes:
    """Return a JSON line with a text and, with `fields`, the other fields of crawled corpora."""
    record: dict[str, object] = {"text": text}
    if fields:
        record |= {
            "id": f"<urn:uuid:{number:032x}>",
            "url": f"https://example.org/articles/{number}.html",
            "timestamp": "2023-11-07T12:30:00Z",
            "language_score": 0.98,
            "metadata": {"dump": "CC-MAIN-2023-40", "token_count": len(text) // 5, "tags": ["a"]},
        }
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def write_cases(folder: Path, num_bytes: int) -> Iterator[Case]:
    """Write all files, of about `num_bytes` bytes each."""
    text_options = DocumentOptions(input_format="text")
    json_options = DocumentOptions(input_format="json-lines")
    path = folder / "corpus.txt"
    write_corpus(path, num_bytes, 0)
    latin = path.read_text("utf-8")
    yield Case("text", path, text_options, bare_lines)
    half = latin[: len(latin) // 2]
    cyrillic = half[: half.rfind("\n")].translate(_CYRILLIC)
    (folder / "cyrillic.txt").write_text(cyrillic, "utf-8")
    yield Case("text, Cyrillic", folder / "cyrillic.txt", text_options, bare_lines)
    ascii_text = latin.encode("ascii", "replace").decode()
    for size, extra, text in (
        (500, "", ascii_text),
        (2000, "", ascii_text),
        (2000, ", other fields", ascii_text),
        (2000, ", Cyrillic", cyrillic),
        (20_000, "", ascii_text),
    ):
        name = f"JSON lines, {size} characters{extra}"
        path = folder / f"{name}.jsonl"
        pieces = enumerate(cut_text(text, size))
        fields = extra == ", other fields"
        path.write_bytes(b"".join(encode_record(*piece, fields) for piece in pieces))
        yield Case(name, path, json_options, bare_json)
    lines = folder / "lines.txt"
    pieces_of_lines = (piece.replace("\n", " ") + "\n" for piece in cut_text(latin, 2000))
    lines.write_text("".join(pieces_of_lines), "utf-8")
    yield Case("one document a line", lines, DocumentOptions(input_format="lines"), bare_lines)


def measure(cases: Sequence[Case], rounds: int) -> Iterator[list[str]]:
    """Yield a row of the table for each case."""
    calls: dict[tuple[str, str], Callable[[], None]] = {}
    for case in cases:
        calls[case.name, "read"] = partial(read_all, case)
        calls[case.name, "bare"] = partial(case.bare, case.path)
    timed = {key: partial(_seconds, call) for key, call in calls.items()}
    take_turns(timed, 1)  # compiles
    seconds = take_turns(timed, rounds)
    for case in cases:
        megabytes = case.path.stat().st_size / MEGABYTE
        read, bare = (seconds[case.name, way] for way in ("read", "bare"))
        rates = [f"{megabytes / median(times):.0f}" for times in (read, bare)]
        yield [case.name, *rates, f"{median_ratio(bare, read):.2f}"]


def _seconds(call: Callable[[], None]) -> float:
    return time_call(call)[1]


def main() -> None:
    """Measure and print the table."""
    arguments = make_parser(__doc__, bytes=50 * MEGABYTE, rounds=7, only="").parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as folder:
        written = write_cases(Path(folder), arguments.bytes)
        cases = [case for case in written if arguments.only in case.name]
        headings = ("MB/s", "corpusmill", "bare loop", "times bare loop")
        print_table(headings, measure(cases, arguments.rounds))


if __name__ == "__main__":
    main()
