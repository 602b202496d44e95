"""Packed rows of a stream by a file of packs, beside a build of the same rows.

    python -m benchmarks.readers.packs [--text wiki.train.tokens] [--times 8] [--folder FOLDER]

Without a text it is synthetic, of WikiText-2's size. The text is repeated and built with
`gpt --mode stream` and with `--mode pack`, once with its articles as documents and once with its
sections. Packs of the same length are made for the stream, first with an empty cache, which unpacks
the shards, and then once more. Both are read from the unpacked shards in batches of one epoch, in
turns.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.builds import (
    FOLDER,
    SAMPLE,
    WIKITEXT_2_BYTES,
    build,
    make_corpus,
    make_tokenizer,
    remove,
)
from benchmarks.console import make_parser, print_table
from benchmarks.measure import take_turns
from corpusmill import DataSet, Loader, TokenPacks, make_batches
from corpusmill.reading.data_set import Samples

DOCUMENTS = {"articles": "wikitext-articles", "sections": "wikitext"}
COMMAND = ("pipeline", "gpt")
BATCH_SIZE = 16


def measure_making(output: Path, cache: Path, length: int, file: Path) -> tuple[float, float]:
    """Return the seconds that packs take, with shards to unpack and with unpacked ones."""
    took = []
    TokenPacks(DataSet(output, cache_folder=cache), length)[0]  # compiles
    remove(cache)
    for _ in range(2):
        remove(file)
        stream, began = DataSet(output, cache_folder=cache), time.perf_counter()
        TokenPacks(stream, length, file)
        took.append(time.perf_counter() - began)
    return took[0], took[1]


def read(samples: Samples) -> float:
    """Return the million tokens a second of an epoch."""
    batches = make_batches(samples, BATCH_SIZE, seed=1)
    began, tokens = time.perf_counter(), 0
    for batch in Loader(batches):
        tokens += batch["input_ids"].size
    return tokens / (time.perf_counter() - began) / 1e6


def measure_documents(
    folder: Path, corpus: Path, name: str, length: int, rounds: int
) -> Iterator[str]:
    """Yield the cells of a row for one kind of documents."""
    tokenizer, cache = make_tokenizer(folder, corpus, "gpt"), folder / "cache"
    flags = ("--document-rule", DOCUMENTS[name], "--max-seq-length", length, "--mode")
    outputs = {mode: folder / f"{name}-{mode}" for mode in ("stream", "pack")}
    builds = [build(COMMAND, corpus, tokenizer, output, *flags, mode)
              for mode, output in outputs.items()]  # fmt: skip
    file = folder / f"{name}.packs"
    made = measure_making(outputs["stream"], cache, length, file)
    stream, built = (DataSet(output, cache_folder=cache) for output in outputs.values())
    packs = TokenPacks(stream, length, file)
    calls = {"packs": partial(read, packs), "built": partial(read, built)}
    take_turns(calls, 1)  # unpacks
    speeds = {kind: median(runs) for kind, runs in take_turns(calls, rounds).items()}
    tokens = sum(shard.tokens for shard in stream.shards)
    token_bytes = stream[0]["input_ids"].itemsize
    yield f"{name}, {tokens / len(stream):,.0f} tokens"
    yield from (f"{built.seconds:.1f}" for built in builds)
    yield from (f"{took:.2f}" for took in made)
    yield f"{file.stat().st_size / (token_bytes * tokens):.2%}"
    yield from (f"{1 - tokens / (length * len(rows)):.2%}" for rows in (packs, built))
    yield from (f"{speeds[kind]:.0f}" for kind in calls)


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "packs", times=8, rounds=3, length=2048)
    parser.add_argument("--text", type=Path, help="text in WikiText's layout")
    options = parser.parse_args()
    corpus = options.folder / "corpus.txt"
    options.folder.mkdir(parents=True, exist_ok=True)
    text = options.text or make_corpus(FOLDER, WIKITEXT_2_BYTES)
    corpus.write_bytes(text.read_bytes() * options.times)
    headings = ["documents", "stream s", "pack s", "packs s", "unpacked s", "file of tokens",
                "padding", "built padding", "M tokens/s", "built M tokens/s"]  # fmt: skip
    sizes = (options.length, options.rounds)
    tokenizer = make_tokenizer(options.folder, corpus, "gpt")
    for mode in ("stream", "pack"):  # compiles
        build(COMMAND, SAMPLE, tokenizer, options.folder / "first", "--mode", mode)
    rows = (measure_documents(options.folder, corpus, name, *sizes) for name in DOCUMENTS)
    print_table(headings, rows)


if __name__ == "__main__":
    main()
