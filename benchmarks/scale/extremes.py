"""Extreme corpora: what breaks first, with few bytes.

    python -m benchmarks.scale.extremes [--only NAME] [--scale 0.1]

Each corpus is built beside an ordinary one with as many bytes and the same objective; "times
ordinary" is the ratio of their times. The driver is the process that plans, submits and waits; its
memory must not grow with the number of documents, as the last two rows show, which have the same
bytes in four times as many documents. Each row is one run, on a machine that may be busy.
"""

import argparse
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.builds import (
    FOLDER,
    MEGABYTE,
    build,
    make_corpus,
    make_tokenizer,
    read_manifest,
    remove,
)
from benchmarks.console import CONSOLE, make_parser, print_table, report
from benchmarks.measure import Measurement, measure
from benchmarks.scale import extreme_corpora as corpora
from benchmarks.synthetic.corpus import write_corpus
from corpusmill.corpus.document_options import DocumentOptions
from pipeline.recipe.inputs import choose_format, list_inputs
from pipeline.recipe.probe import read_probe

_BERT = ("bert", "--duplicates", "2")
_GPT = ("gpt", "--mode", "pack", "--max-seq-length", "512")
_LINES = ("--input-format", "lines")
_Writer = Callable[[Path, Path, float], object]


@dataclass(frozen=True)
class Extreme:
    """A corpus, and how it is built.

    Attributes:
        name: of the row.
        write: writes the corpus to a path, given a path of ordinary text and a scale.
        command: the objective with its flags, which the ordinary corpus gets, too.
        flags: of this corpus only.
    """

    name: str
    write: _Writer
    command: tuple[str, ...] = _BERT
    flags: tuple[str, ...] = ()


def _many_files(path: Path, text: Path, scale: float) -> None:
    corpora.write_many_files(path, text, int(50_000 * scale))


def _lines(number: int, line_bytes: int) -> _Writer:
    return lambda path, text, scale: corpora.write_lines_of_one_size(
        path, text, int(number * scale), line_bytes
    )


def _endless(newline: bytes) -> _Writer:
    return lambda path, text, scale: corpora.write_endless_document(
        path, text, int(1000 * MEGABYTE * scale), newline
    )


def _one_length(path: Path, _: Path, scale: float) -> None:
    corpora.write_one_length(path, int(250_000 * scale), 126)


def _empty(path: Path, text: Path, scale: float) -> None:
    corpora.write_empty_records(path, text, int(100_000 * scale), int(20_000 * scale))


def _long_names(path: Path, text: Path, scale: float) -> None:
    corpora.write_long_names(path, text, int(1000 * scale))


def _deep(path: Path, text: Path, scale: float) -> None:
    corpora.write_deep_folders(path, text, int(1000 * scale), 60)


def _large(path: Path, _: Path, scale: float) -> None:
    write_corpus(path, int(5000 * MEGABYTE * scale))


EXTREMES = (
    Extreme("50,000 files", _many_files, flags=("--document-rule", "wikitext")),
    Extreme(
        "5,000 shards",
        lambda path, text, _: shutil.copy(text, path),
        flags=("--num-shards", "5000"),
    ),
    Extreme("documents of one length", _one_length),
    Extreme("documents of one length, packed", _one_length, _GPT, _LINES),
    Extreme("2,000,000 documents of a line", _lines(2_000_000, 50), flags=_LINES),
    Extreme("a document of 1 GB", _endless(b"\n")),
    Extreme("a line of 1 GB", _endless(b" ")),
    Extreme("100,000 empty documents", _empty, flags=("--input-format", "json-lines")),
    Extreme("names of 200 characters", _long_names),
    Extreme("60 nested folders", _deep),
    Extreme("a file of 5 GB", _large),
    Extreme("500,000 documents of 200 bytes", _lines(500_000, 200), flags=_LINES),
    Extreme("2,000,000 documents of 50 bytes", _lines(2_000_000, 50), flags=_LINES),
)

_HEADINGS = (
    "", "MB", "files", "documents", "examples", "rejects", "manifest, MB", "seconds",
    "times ordinary", "peak MiB (PSS)", "of the ordinary", "driver MiB",
)  # fmt: skip


class Bench:
    """Corpora, tokenizers and runs in one folder.

    Args:
        folder: for corpora, tokenizers and outputs.
        workers: of each run.
        scale: of all numbers and sizes.
    """

    def __init__(self, folder: Path, workers: int, scale: float) -> None:
        self._folder, self._workers, self._scale = folder, workers, scale

    def measure(self, extreme: Extreme) -> Iterator[str]:
        """Build a corpus and an ordinary one of its size; yield the row of the table."""
        corpus = self._folder / "extreme"
        report(f"{extreme.name}: writing ...")
        remove(corpus)
        text = make_corpus(self._folder, int(100 * MEGABYTE * self._scale))
        extreme.write(corpus, text, self._scale)
        files = [corpus] if corpus.is_file() else [*filter(Path.is_file, corpus.rglob("*"))]
        corpus_bytes = sum(path.stat().st_size for path in files)
        report(f"{extreme.name}: {corpus_bytes / MEGABYTE:,.0f} MB ...")
        if len(files) > 1:
            report(measure("benchmarks.scale.extremes", "--plan", corpus).output.strip())
        run = self._build(corpus, extreme.command, extreme.flags)
        counts = read_manifest(self._output)["counts"]
        manifest_bytes = (self._output / "dataset.json").stat().st_size
        remove(corpus)
        ordinary = self._build(make_corpus(self._folder, corpus_bytes), extreme.command)
        remove(self._output)
        yield extreme.name
        yield f"{corpus_bytes / MEGABYTE:,.0f}"
        yield f"{len(files):,}"
        yield f"{counts.get('read.documents', 0):,}"
        yield f"{counts.get('build.examples', 0):,}"
        yield f"{counts.get('read.rejects', 0):,}"
        yield f"{manifest_bytes / MEGABYTE:.2f}"
        yield f"{run.seconds:.1f}"
        yield f"{run.seconds / ordinary.seconds:.2f}"
        yield f"{run.peak_mib:,.0f}"
        yield f"{ordinary.peak_mib:,.0f}"
        yield f"{run.first_mib:,.0f}"

    @property
    def _output(self) -> Path:
        return self._folder / "output"

    def _build(
        self, corpus: Path, command: tuple[str, ...], flags: tuple[str, ...] = ()
    ) -> Measurement:
        objective, *options = command
        sample = make_corpus(self._folder, int(10 * MEGABYTE * self._scale))
        tokenizer = make_tokenizer(self._folder, sample, objective)
        options += ["--workers", str(self._workers), "--min-bytes-per-worker", "0", *flags]
        return build(("pipeline", objective), corpus, tokenizer, self._output, *options)


def plan(corpus: str) -> str:
    """List, check and probe a corpus as a job does before it starts; return what that took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    files = list_inputs([corpus], "nowhere")
    options = choose_format(files, DocumentOptions(document_rule="wikitext"), Console(quiet=True))
    read_probe(files, options)
    seconds = time.perf_counter() - began
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return f"planned {len(files):,} files in {seconds:.1f} s with {growth:,.0f} MiB"


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "extremes", only="", scale=1.0, workers=2)
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plan:
        print(plan(arguments.plan))
        return
    bench = Bench(arguments.folder, arguments.workers, arguments.scale)
    rows = []
    for extreme in EXTREMES:
        if arguments.only in extreme.name:
            rows.append(list(bench.measure(extreme)))
            CONSOLE.print("  ".join(rows[-1]))
    print_table(_HEADINGS, rows)


if __name__ == "__main__":
    main()
