"""Reading a corpus against a bare loop over the same file, in one run, on one core.

    python -m benchmarks.kernels.reading [--bytes 50000000] [--rounds 7] [--only json]

The text is synthetic_corpus.py's; "Cyrillic" is the same text with other letters. The bare loop is
``for line in stream: orjson.loads(line)["text"]``, or ``line.strip().decode()`` where a line is
text: it makes no documents, counts nothing and keeps nothing. Each round reads every file both
ways; the numbers are from medians of processor time, which other work on the machine disturbs less
than the clock's, and which counts every thread that a library starts.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from benchmarks.synthetic.corpus import write_corpus
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_CYRILLIC = {ord(a): chr(0x430 + place) for place, a in enumerate(_LATIN)} | {
    ord(a): chr(0x410 + place) for place, a in enumerate(_LATIN.upper())
}


class Case(NamedTuple):
    """A file, how it is read, and the bare loop beside it."""

    name: str
    path: Path
    options: DocumentOptions
    bare: Callable[[Path], None]


def bare_json(path: Path) -> None:
    """Parse every line and take its text."""
    with path.open("rb") as stream:
        for line in stream:
            orjson.loads(line)["text"]


def bare_lines(path: Path) -> None:
    """Strip and decode every line."""
    with path.open("rb") as stream:
        for line in stream:
            line.strip().decode()


def read_all(case: Case) -> None:
    """Read the file as the job does, without what comes after."""
    size = case.path.stat().st_size
    with case.path.open("rb") as stream:
        for _ in read_corpus(stream, str(case.path), 0, 0, size, case.options):
            pass


def records(text: str, characters: int) -> Iterator[str]:
    """The text in pieces of whole lines with at least so many characters."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + characters)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def json_line(number: int, text: str, fields: bool) -> bytes:
    """A record of text alone, or with the fields that crawled corpora have."""
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
    """Write the files, each of about as many bytes."""
    text_options = DocumentOptions(input_format="text")
    json_options = DocumentOptions(input_format="json-lines")
    write_corpus(folder / "corpus.txt", num_bytes, 0)
    latin = (folder / "corpus.txt").read_text("utf-8")
    yield Case("text", folder / "corpus.txt", text_options, bare_lines)
    whole = replace(text_options, sentence_rule="document")
    yield Case("text, documents as they stand", folder / "corpus.txt", whole, bare_lines)
    whole = replace(whole, document_rule="whole-file")
    yield Case("text, the file as it stands", folder / "corpus.txt", whole, bare_lines)
    half = latin[: len(latin) // 2]
    cyrillic = half[: half.rfind("\n")].translate(_CYRILLIC)
    (folder / "cyrillic.txt").write_text(cyrillic, "utf-8")
    yield Case("text, Cyrillic", folder / "cyrillic.txt", text_options, bare_lines)
    for size, fields in ((500, False), (2000, False), (2000, True), (5000, False), (20_000, False)):
        for script, text in (
            ("", latin.encode("ascii", "replace").decode()),
            (", Cyrillic", cyrillic),
        ):
            name = f"JSON lines, {size} characters{', other fields' * fields}{script}"
            path = folder / f"{name}.jsonl"
            with path.open("wb") as stream:
                stream.writelines(
                    json_line(number, of, fields) for number, of in enumerate(records(text, size))
                )
            yield Case(name, path, json_options, bare_json)
    lines = folder / "lines.txt"
    lines.write_text("".join(of.replace("\n", " ") + "\n" for of in records(latin, 2000)), "utf-8")
    yield Case("one document a line", lines, DocumentOptions(input_format="lines"), bare_lines)


def measure(cases: Sequence[Case], rounds: int) -> Iterator[tuple[Case, float, float]]:
    """Median processor time of reading each file, and of the bare loop, both in each round."""
    ways: tuple[Callable[[Case], None], ...] = (read_all, lambda case: case.bare(case.path))
    taken = np.empty((rounds, len(cases), len(ways)))
    for number in range(-1, rounds):  # the first one, overwritten later, compiles
        for place, case in enumerate(cases):
            for way, work in enumerate(ways):
                began = time.process_time()
                work(case)
                taken[number, place, way] = time.process_time() - began
    for case, (read, bare) in zip(cases, np.median(taken, axis=0), strict=True):
        yield case, float(read), float(bare)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=50_000_000, dest="num_bytes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as folder:
        written = write_cases(Path(folder), arguments.num_bytes)
        cases = [case for case in written if arguments.only in case.name]
        print(f"{'MB/s of one core':56}{'read':>6}{'bare':>6}{'ratio':>7}")
        for case, read, bare in measure(cases, arguments.rounds):
            size = case.path.stat().st_size / 1e6
            print(f"{case.name:56}{size / read:6.0f}{size / bare:6.0f}{bare / read:7.2f}")


if __name__ == "__main__":
    main()
