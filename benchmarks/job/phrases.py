"""ERNIE's phrases from end to end: `python -m benchmarks.job.phrases CLASSICAL.txt MODERN.txt`.

The command `ernie --words jieba --workers 1 --duplicates 1` builds the texts, each repeated to an
equal share of N MB, and the first 300 kB of the last of them, whose processor seconds are those of
the start. They take turns; at the end rjieba alone cuts a part of the texts, which tells how fast
the machine is at the time. The tokenizer is WordPiece, trained on the texts.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from rjieba import Jieba

from benchmarks.builds import FOLDER, MEGABYTE, build
from benchmarks.console import make_parser, print_table, report
from benchmarks.measure import Measurement, measure, take_turns, time_call

_SMALL_BYTES, _CUT_BYTES = 300_000, 4 * MEGABYTE
_FLAGS = ("--words", "jieba", "--duplicates", 1, "--workers", 1, "--document-rule", "blank-lines")


def make_texts(folder: Path, texts: Sequence[Path], num_bytes: int) -> tuple[Path, Path, Path]:
    """Write the text of a size, its small part, and a tokenizer for it, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    large, small, tokenizer = (folder / f"phrases{end}" for end in (".txt", "-small.txt", ".json"))
    share = num_bytes // len(texts)
    with large.open("wb") as stream:
        for text in texts:
            lines = text.read_bytes() + b"\n\n"
            repeated = lines * (share // len(lines) + 1)
            stream.write(repeated[: repeated.rfind(b"\n", 0, share) + 1] + b"\n")
    first = texts[-1].read_bytes()[:_SMALL_BYTES]
    small.write_bytes(first[: first.rfind(b"\n") + 1])
    if not tokenizer.exists():
        report("training a tokenizer ...")
        flags = ("--vocab-size", 21128, "--output", tokenizer)
        measure("pipeline", "train-tokenizer", "--input", *texts, *flags)
    return large, small, tokenizer


def time_library(texts: Sequence[Path]) -> float:
    """Return the seconds that rjieba alone takes for a byte."""
    parts = [text.read_bytes()[:_CUT_BYTES].decode(errors="ignore") for text in texts]
    cut = Jieba().cut
    _, seconds = time_call(lambda: [cut(part, True) for part in parts])
    return seconds / sum(len(part.encode()) for part in parts)


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER, megabytes=160, rounds=3)
    parser.add_argument("texts", type=Path, nargs="+", help="plain text files")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    num_bytes = arguments.megabytes * MEGABYTE
    large, small, tokenizer = make_texts(folder, arguments.texts, num_bytes)
    run = partial(build, ("pipeline", "ernie"))
    output = folder / "output"
    run(small, tokenizer, output, *_FLAGS)  # compiles the kernels if they are not compiled
    runs: dict[str, list[Measurement]] = take_turns(
        {path.name: partial(run, path, tokenizer, output, *_FLAGS) for path in (large, small)},
        arguments.rounds,
    )
    whole = [one.processor_seconds for one in runs[large.name]]
    start = [one.processor_seconds for one in runs[small.name]]
    size = large.stat().st_size / MEGABYTE
    rates = [size / (one - other) for one, other in zip(whole, start, strict=True)]
    print_table(
        ("MB", "processor seconds", "start", "MB/s", "without start", "rjieba alone, MB/s"),
        [
            (
                f"{size:.0f}",
                f"{median(whole):.1f}",
                f"{median(start):.1f}",
                f"{size / median(whole):.1f}",
                " ".join(f"{rate:.1f}" for rate in rates),
                f"{1 / time_library(arguments.texts) / MEGABYTE:.1f}",
            )
        ],
    )


if __name__ == "__main__":
    main()
