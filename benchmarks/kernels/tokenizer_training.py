"""Training of a byte-level BPE tokenizer by `corpusmill` and by the plain library: time and memory.

    python -m benchmarks.kernels.tokenizer_training wiki.train.tokens [--times 5]

Each way is a process of its own that reads the lines of the file, repeated `--times` times, and
writes a tokenizer.json with 30,000 tokens; the files must be equal. The plain way passes every line
to `ByteLevelBPETokenizer.train_from_iterator`, ours the counts of distinct words.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import ByteLevelBPETokenizer

from benchmarks.builds import MEGABYTE
from benchmarks.console import CONSOLE, make_parser
from benchmarks.measure import measure
from corpusmill.tokenization.training.byte_level_bpe import (
    ByteLevelBpeOptions,
    train_byte_level_bpe,
)

WAYS = ("plain", "corpusmill")
LINES_PER_BATCH = 4096


def read_lines(path: Path, times: int) -> Iterator[str]:
    """Yield the lines that have text, the whole file `times` times."""
    for _ in range(times):
        with path.open(encoding="utf-8") as file:
            yield from filter(None, map(str.strip, file))


def train(way: str, path: Path, times: int) -> str:
    """Train in one of the ways; return a tokenizer.json."""
    lines = read_lines(path, times)
    options = ByteLevelBpeOptions()
    if way == "corpusmill":
        batches = iter(lambda: list(islice(lines, LINES_PER_BATCH)), [])
        return train_byte_level_bpe(batches, options)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        lines,
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        show_progress=False,
        special_tokens=list(options.special_tokens),
    )
    text: str = tokenizer.to_str(pretty=True)
    return text


def compare(path: Path, times: int) -> None:
    """Measure both ways, each in a process of its own, and compare their files."""
    CONSOLE.print(f"{path}: {times * path.stat().st_size / MEGABYTE:.1f} MB")
    with TemporaryDirectory() as folder:
        outputs = [Path(folder, way) for way in WAYS]
        for way, output in zip(WAYS, outputs, strict=True):
            flags = ("--times", times, "--way", way, "--output", output)
            run = measure("benchmarks.kernels.tokenizer_training", path, *flags)
            CONSOLE.print(f"{way:12}{run.seconds:8.1f} s{run.peak_mib:8.0f} MiB")
        assert outputs[0].read_bytes() == outputs[1].read_bytes()
    CONSOLE.print("The files are equal, byte for byte.")


def main() -> None:
    """Compare both ways, or train in one of them."""
    parser = make_parser(__doc__, times=1)
    parser.add_argument("text", type=Path)
    parser.add_argument("--way", choices=WAYS, help="train in this way alone")
    parser.add_argument("--output", type=Path, help="of the one way")
    arguments = parser.parse_args()
    if arguments.way:
        trained = train(arguments.way, arguments.text, arguments.times)
        arguments.output.write_text(trained, encoding="utf-8")
    else:
        compare(arguments.text, arguments.times)


if __name__ == "__main__":
    main()
