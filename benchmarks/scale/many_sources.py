"""A corpus of very many small sources: the build, the mixture, and the first batch.

    python -m benchmarks.scale.many_sources [--sources 1833] [--folder FOLDER]

Each source is a file of two lines of 75 bytes. The first batch has 256 samples, and no shard is
unpacked before it.
"""

import time
from pathlib import Path

from benchmarks.builds import FOLDER, MEGABYTE, SAMPLE, make_corpus, make_tokenizer, remove
from benchmarks.console import make_parser, print_table
from benchmarks.measure import measure
from benchmarks.scale.extreme_corpora import write_lines_of_one_size
from corpusmill import DataSet, Loader, make_batches, mix

_LINE_BYTES, _BATCH_SIZE = 75, 256


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
    steps = {"the build": built, "the mixture": mixed, "the first batch": first}
    rows = ((name, f"{seconds:.2f}") for name, seconds in steps.items())
    print_table((f"{arguments.sources:,} sources", "seconds"), rows)


if __name__ == "__main__":
    main()
