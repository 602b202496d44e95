"""A corpus of very many small sources: the build, the mixture, and the first batch.

    python -m benchmarks.scale.many_sources [--sources 1833] [--folder FOLDER]

Each source is a file of two lines of 75 bytes. The bars are 15 s for the whole command, 0.5 s for
`mix`, and 1 s for the first batch of 256 samples with no shard unpacked, on two cores without other
work.
"""

import time
from pathlib import Path

from benchmarks.builds import FOLDER, MEGABYTE, SAMPLE, make_corpus, make_tokenizer, remove
from benchmarks.console import make_parser, print_table, verdict
from benchmarks.measure import measure
from benchmarks.scale.extreme_corpora import write_lines_of_one_size
from corpusmill import DataSet, Loader, make_batches, mix

_LINE_BYTES, _BATCH_SIZE = 75, 256
_BUILD_SECONDS, _MIX_SECONDS, _FIRST_SECONDS = 15.0, 0.5, 1.0


def build_sources(folder: Path, sources: int) -> float:
    """Build the data set; return the seconds that it took."""
    text, files, output = folder / "lines.txt", folder / "sources", folder / "output"
    remove(files)
    remove(output)
    files.mkdir()
    write_lines_of_one_size(text, make_corpus(folder, MEGABYTE), 2 * sources, _LINE_BYTES)
    lines = text.read_text().splitlines(keepends=True)
    named = []
    for number in range(sources):
        path = files / f"{number:05d}.txt"
        path.write_text("".join(lines[2 * number : 2 * number + 2]))
        named.append(f"s{number:05d}={path}")
    tokenizer = make_tokenizer(folder, SAMPLE, "bert")
    flags = ("--document-rule", "blank-lines", "--tokenizer", tokenizer, "--output", output)
    return measure("pipeline", "bert", "--source", *named, *flags).seconds


def read_first(folder: Path) -> tuple[float, float]:
    """Mix all sources and read a batch; return the seconds of both."""
    cache = folder / "cache"
    remove(cache)
    parts = DataSet(folder / "output", cache_folder=cache).by_source()
    begin = time.perf_counter()
    samples, order = mix(parts, {name: len(part) for name, part in parts.items()})
    mixed = time.perf_counter()
    batches = make_batches(samples, _BATCH_SIZE, order=order)
    next(iter(Loader(batches, prefetch_factor=0)))
    return mixed - begin, time.perf_counter() - mixed


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "many-sources", sources=1833)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    built = build_sources(arguments.folder, arguments.sources)
    mixed, first = read_first(arguments.folder)
    bars = (
        ("the build", built, _BUILD_SECONDS),
        ("the mixture", mixed, _MIX_SECONDS),
        ("the first batch", first, _FIRST_SECONDS),
    )
    rows = [
        (name, f"{seconds:.2f}", f"{most:g}", verdict(is_met=seconds <= most))
        for name, seconds, most in bars
    ]
    print_table(("", "seconds", "bar", ""), rows, f"{arguments.sources:,} sources")


if __name__ == "__main__":
    main()
