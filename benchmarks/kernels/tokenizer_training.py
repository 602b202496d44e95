"""A byte-level BPE tokenizer trained by `corpusmill` and by the plain library: time, memory, file.

    python -m benchmarks.kernels.tokenizer_training wiki.train.tokens [TIMES]

Each way is a process of its own that reads the lines of the file, so many times over (1), and
writes a tokenizer.json of 30,000 tokens; the files are compared. The plain way hands every line to
`ByteLevelBPETokenizer.train_from_iterator`, ours the counts of distinct words.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import ByteLevelBPETokenizer

from benchmarks.measure import measure
from corpusmill.tokenization.training.byte_level_bpe import (
    ByteLevelBpeOptions,
    train_byte_level_bpe,
)

WAYS = ("plain", "corpusmill")
LINES_PER_BATCH = 4096


def read_lines(path: str, times: int) -> Iterator[str]:
    """The lines that hold text, the whole file so many times."""
    for _ in range(times):
        with Path(path).open(encoding="utf-8") as file:
            yield from filter(None, map(str.strip, file))


def train(way: str, path: str, times: int) -> str:
    """Train in one of the ways, to a tokenizer.json."""
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


def main(path: str, times: str = "1", way: str = "", output: str = "") -> None:
    """Measure both ways and compare their files; with a way, train in that one."""
    if way:
        Path(output).write_text(train(way, path, int(times)), encoding="utf-8")
        return
    print(f"{path}: {int(times) * Path(path).stat().st_size / 1e6:.1f} MB")
    with TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in WAYS]
        for name, file in zip(WAYS, outputs, strict=True):
            command = [
                sys.executable,
                "-m",
                "benchmarks.kernels.tokenizer_training",
                path,
                times,
                name,
            ]
            taken = measure([*command, str(file)])
            print(f"{name:12}{taken.seconds:8.1f} s{taken.peak_mib:8.0f} MiB")
        assert outputs[0].read_bytes() == outputs[1].read_bytes()
    print("The files are equal, byte for byte.")


if __name__ == "__main__":
    main(*sys.argv[1:])
