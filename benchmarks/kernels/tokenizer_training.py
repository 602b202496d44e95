"""Training of a BPE or WordPiece tokenizer by corpusmill and by others: time and memory.

    python -m benchmarks.kernels.tokenizer_training [wiki.train.tokens] [--model wordpiece]

Without a file the text is synthetic, of `--bytes` bytes. Each way is a process of its own that
reads the lines of the file, repeated `--times` times:

- `command` is `corpusmill train-tokenizer` with `--workers`, from its start to its end; without
  `--times` only.
- `corpusmill` counts their words and learns the merges, in one process without Beam.
- `merges` does the latter alone, with words that were counted before.
- `tokenizers` passes every line to the trainer of the tokenizers library.
- `gigatoken` passes the file to `gigatoken.train_bpe`; `bpe` without `--times` only. Its words are
  those of the whole file and not of each line.
- `rustbpe` passes every line to the trainer of nanochat, with the pattern of GPT-2; `bpe` only.

The files of `corpusmill` and, for `bpe`, `tokenizers` must be equal, and the tokens of `merges`
those of `corpusmill`. The library numbers the characters of WordPiece by chance, so that its tokens
differ.
"""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

from benchmarks.builds import FOLDER, MEGABYTE, make_corpus
from benchmarks.console import make_parser, print_table, report
from benchmarks.measure import Measurement, measure
from benchmarks.rivals import RIVALS, label, name_problem, python_of
from corpusmill.tokenization.compiled.byte_level_pieces import GPT2
from corpusmill.tokenization.training.counted_words import CountedWords, find_characters
from corpusmill.tokenization.training.merges import byte_ids, character_ids, train_merges
from corpusmill.tokenization.training.models import ALPHABET, ByteLevelBpeOptions, model_options
from corpusmill.tokenization.training.parts import SPECIAL_TOKENS
from tests.tools.training import count_text
from tests.tools.training import train as train_on_text

_NAMES = {
    "command": "`corpusmill train-tokenizer`",
    "corpusmill": "corpusmill in one process",
    "merges": "its merges alone",
    "tokenizers": "Hugging Face tokenizers",
    "gigatoken": label("gigatoken"),
    "rustbpe": label("rustbpe"),
}
WAYS = tuple(_NAMES)
LINES_PER_BATCH = 4096
WORD_LIMITS = ByteLevelBpeOptions().word_limits
BPE_TOKENS = ByteLevelBpeOptions().special_tokens


def read_lines(path: Path, times: int) -> Iterator[str]:
    """Yield the lines that have text, the whole file `times` times."""
    for _ in range(times):
        with path.open(encoding="utf-8") as file:
            yield from filter(None, map(str.strip, file))


def read_batches(path: Path, times: int) -> Iterator[list[str]]:
    """Yield the lines in batches."""
    lines = read_lines(path, times)
    return iter(lambda: list(islice(lines, LINES_PER_BATCH)), [])


def count(model: str, path: Path, times: int, output: Path) -> None:
    """Count words and write them to a file."""
    counter = model_options(model, {}).make_counter()
    words = count_text(read_batches(path, times), counter, WORD_LIMITS)
    pq.write_table(pa.table({"word": words.words, "count": words.counts}), output)


def train_with_merges(model: str, counted: Path, vocab_size: int) -> str:
    """Learn merges from the file of counted words; return the vocabulary."""
    table = pq.read_table(counted)
    words = CountedWords(table["word"].combine_chunks(), table["count"].to_numpy())
    tokens, prefix = [*BPE_TOKENS, *ALPHABET], ""
    if model == "wordpiece":
        first, inner = find_characters(words)
        prefix = "##"
        tokens = [*SPECIAL_TOKENS, *sorted({*first, *inner}), *(prefix + one for one in inner)]
    ids = byte_ids(tokens) if model == "bpe" else character_ids(tokens, prefix)
    vocabulary, _ = train_merges(words, ids, tokens, vocab_size, 2, prefix)
    return json.dumps(vocabulary)


def train_with_library(model: str, path: Path, times: int, vocab_size: int) -> str:
    """Train with the tokenizers library; return a tokenizer.json."""
    tokenizer = ByteLevelBPETokenizer() if model == "bpe" else BertWordPieceTokenizer()
    special = BPE_TOKENS if model == "bpe" else SPECIAL_TOKENS
    tokenizer.train_from_iterator(
        read_lines(path, times),
        vocab_size=vocab_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=list(special),
    )
    return str(tokenizer.to_str(pretty=True))


def train_with_gigatoken(path: Path, vocab_size: int) -> str:
    """Train with gigatoken; return the number of tokens."""
    gigatoken = import_module("gigatoken")  # not among our dependencies
    source = gigatoken.TextFileSource([str(path)])
    tokens, *_ = gigatoken.train_bpe(source, vocab_size, list(BPE_TOKENS))
    return str(len(tokens))


def train_with_rustbpe(path: Path, times: int, vocab_size: int) -> str:
    """Train with rustbpe, which knows no special tokens; return the number of tokens."""
    tokenizer = import_module("rustbpe").Tokenizer()  # not among our dependencies
    merged = vocab_size - len(BPE_TOKENS)
    tokenizer.train_from_iterator(read_lines(path, times), merged, pattern=GPT2)
    return str(tokenizer.vocab_size)


def train(way: str, model: str, path: Path, times: int, vocab_size: int) -> str:
    """Train in one of the ways; return what it gave."""
    if way == "merges":
        return train_with_merges(model, path, vocab_size)
    if way == "tokenizers":
        return train_with_library(model, path, times, vocab_size)
    if way == "gigatoken":
        return train_with_gigatoken(path, vocab_size)
    if way == "rustbpe":
        return train_with_rustbpe(path, times, vocab_size)
    options = model_options(model, {"vocab_size": vocab_size})
    return train_on_text(read_batches(path, times), options)


def check_equal(model: str, folder: Path) -> None:
    """Compare what the ways gave."""
    whole = json.loads((folder / "corpusmill").read_bytes())["model"]["vocab"]
    tokens = sorted(whole, key=whole.__getitem__)
    assert json.loads((folder / "merges").read_bytes()) == tokens
    if model == "bpe":
        assert (folder / "corpusmill").read_bytes() == (folder / "tokenizers").read_bytes()


def measure_way(way: str, text: Path, times: int, workers: int, *flags: object) -> Measurement:
    """Measure a way in a process of its own, that of a rival in the rival's environment."""
    report(f"{way} ...")
    if way == "command":
        job = ("--input", text, "--workers", workers, "--no-progress")
        return measure("pipeline", "train-tokenizer", *job, *flags)
    python = python_of(way) if way in RIVALS else sys.executable
    module, arguments = "benchmarks.kernels.tokenizer_training", ("--times", times, "--way", way)
    return measure(module, text, *flags, *arguments, python=python)


def compare(model: str, path: Path, times: int, vocab_size: int, workers: int) -> None:
    """Measure all ways, each in a process of its own, and compare what they gave."""
    rows: list[tuple[str, ...]] = []
    left_out = {"command", "gigatoken"} if times > 1 else set()
    if model != "bpe":
        left_out |= set(RIVALS)
    with TemporaryDirectory() as folder:
        counted = Path(folder, "counted.parquet")
        count(model, path, times, counted)
        for way in WAYS:
            if way in left_out:
                continue
            flags = ("--model", model, "--vocab-size", vocab_size, "--output", Path(folder, way))
            text = counted if way == "merges" else path
            try:
                run = measure_way(way, text, times, workers, *flags)
            except RuntimeError as error:
                if way not in RIVALS:
                    raise
                rows.append((_NAMES[way], name_problem(error)))
                continue
            seconds = (f"{run.seconds:.1f}", f"{run.processor_seconds:.1f}")
            rows.append((_NAMES[way], *seconds, f"{run.peak_mib:,.0f}"))
        check_equal(model, Path(folder))
    title = f"{times * path.stat().st_size / MEGABYTE:.0f} MB, {model}, {vocab_size:,} tokens"
    print_table((title, "seconds", "processor seconds", "peak MiB"), rows)


def main() -> None:
    """Compare all ways, or train in one of them."""
    parser = make_parser(__doc__, times=1, workers=2, bytes=100 * MEGABYTE)
    parser.add_argument(
        "text", nargs="?", type=Path, help="of the way `merges`, a file of counted words"
    )
    parser.add_argument("--model", choices=("bpe", "wordpiece"), default="bpe")
    parser.add_argument("--vocab-size", type=int, default=30000)
    parser.add_argument("--way", choices=WAYS[1:], help="train in this way alone")
    parser.add_argument("--output", type=Path, help="of the one way")
    given = parser.parse_args()
    if given.way:
        trained = train(given.way, given.model, given.text, given.times, given.vocab_size)
        given.output.write_text(trained, encoding="utf-8")
    else:
        text = given.text or make_corpus(FOLDER, given.bytes)
        compare(given.model, text, given.times, given.vocab_size, given.workers)


if __name__ == "__main__":
    main()
