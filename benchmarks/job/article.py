"""BERT examples as the article makes them, for comparison: one process with Python lists.

The article is "Preparing Data for BERT Training" (seed 000). It tokenizes every line by itself and
cuts, truncates, masks and pads pairs in plain Python; `datasets` collects the samples from a
generator and writes them as Parquet. Here the lines come from a file instead of the hub.
"""

import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub.constants
import tokenizers

from benchmarks.console import make_parser

Document = list[list[int]]

MAX_SEQ_LENGTH = 512
MASKED_LM_PROB = 0.15
MAX_PREDICTIONS_PER_SEQ = 20
SHORT_SEQ_PROB = 0.1


def create_documents(lines: list[str], tokenizer: tokenizers.Tokenizer) -> list[Document]:
    """Return the documents as lists of token ids, one per line; empty and title lines end them."""
    documents: list[Document] = [[]]
    for line in lines:
        text = line.strip()
        if not text or text.startswith("="):
            documents.append([])
        else:
            documents[-1].append(tokenizer.encode(text).ids)
    return [document for document in documents if document]


def create_samples(
    documents: Sequence[Document],
    tokenizer: tokenizers.Tokenizer,
    repeats: int,
    max_seq_length: int,
) -> Iterator[dict[str, Any]]:
    """Yield the samples of all documents, `repeats` times.

    A sample is {"tokens": [1, 87, 3, ...], "segment_ids": [0, 0, 1, ...], "is_random_next": True,
    "masked_positions": [1], "masked_labels": [912]}; the first two are `max_seq_length` long.
    """
    for index in list(range(len(documents))) * repeats:
        for first, second, is_random_next in sentence_pairs(documents, index, max_seq_length - 3):
            yield create_sample(first, second, is_random_next, tokenizer, max_seq_length)


def sentence_pairs(
    documents: Sequence[Document], index: int, max_length: int
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Yield pairs of segments of a document, and whether the second one is from another."""
    target = max_length
    if random.random() < SHORT_SEQ_PROB:
        target = random.randint(2, max_length)
    sentences = list(documents[index])
    while sentences:
        end, length = 1, 0
        while end < len(sentences) and length < target:
            length += len(sentences[end - 1])
            end += 1
        split = random.randint(1, end - 1) if end > 1 else 1
        first = [token for sentence in sentences[:split] for token in sentence]
        second = [token for sentence in sentences[split:end] for token in sentence]
        is_random_next = not second or random.random() < 0.5
        if is_random_next:
            second = random_segment(documents, index, target - len(first))
        sentences = sentences[split:] if is_random_next else sentences[end:]
        yield first, second, is_random_next


def random_segment(documents: Sequence[Document], index: int, target: int) -> list[int]:
    """Return sentences that start at a random place of a document other than `index`."""
    other = random.randint(0, len(documents) - 2)
    if other >= index:
        other += 1
    start = random.randint(0, len(documents[other]) - 1)
    tokens: list[int] = []
    while start < len(documents[other]) and len(tokens) < target:
        tokens.extend(documents[other][start])
        start += 1
    return tokens


def create_sample(
    first: list[int],
    second: list[int],
    is_random_next: bool,
    tokenizer: tokenizers.Tokenizer,
    max_seq_length: int,
) -> dict[str, Any]:
    """Truncate, mask and pad a pair to a sample, as `create_samples` describes it."""
    cls_id = tokenizer.token_to_id("[CLS]")
    sep_id = tokenizer.token_to_id("[SEP]")
    mask_id = tokenizer.token_to_id("[MASK]")
    pad_id = tokenizer.token_to_id("[PAD]")
    truncate(first, second, max_seq_length - 3)
    padding = max_seq_length - 3 - len(first) - len(second)
    tokens = [cls_id, *first, sep_id, *second, sep_id, *[pad_id] * padding]
    segment_ids = [0] * (len(first) + 2) + [1] * (len(second) + 1) + [-1] * padding

    candidates = [i for i, token in enumerate(tokens) if token not in [cls_id, sep_id, pad_id]]
    random.shuffle(candidates)
    wanted = round((len(first) + len(second)) * MASKED_LM_PROB)
    positions = sorted(candidates[: min(MAX_PREDICTIONS_PER_SEQ, max(1, wanted))])
    labels = []
    for position in positions:
        labels.append(tokens[position])
        if random.random() < 0.8:
            tokens[position] = mask_id
        elif random.random() < 0.5:
            tokens[position] = random.randint(4, tokenizer.get_vocab_size() - 1)
    return {
        "tokens": tokens,
        "segment_ids": segment_ids,
        "is_random_next": is_random_next,
        "masked_positions": positions,
        "masked_labels": labels,
    }


def truncate(first: list[int], second: list[int], max_length: int) -> None:
    """Drop tokens from a random end of the longer list, in place, until both lists fit."""
    while len(first) + len(second) > max_length:
        longer = first if len(first) > len(second) else second
        longer.pop(0 if random.random() < 0.5 else -1)


def store(samples: dict[str, Any], output: Path) -> tuple[int, float, float]:
    """Collect samples in a `datasets.Dataset` and write it as Parquet.

    Args:
        samples: the arguments of `create_samples`.
        output: the Parquet file; the data set's cache is beside it until it is written.

    Returns:
        The number of samples, the seconds to collect them and the seconds to write them.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="article-", dir=output.parent) as cache:
        dataset = datasets.Dataset.from_generator(
            create_samples, cache_dir=cache, gen_kwargs=samples
        )
        generated = time.perf_counter()
        dataset.to_parquet(output)
        written = time.perf_counter()
        examples = len(dataset)
        del dataset  # it maps files of the folder that is removed now
    return examples, generated - began, written - generated


def measure(path: Path, tokenizer_path: Path, output: Path, repeats: int) -> dict[str, int | float]:
    """Write the samples of a text file as Parquet; return sizes, counts and seconds.

    Raises:
        SystemExit: the text has fewer than two documents, so that a random one cannot be drawn.
    """
    huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()
    random.seed(0)
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_path))
    began = time.perf_counter()
    with path.open(encoding="utf-8", newline="\n") as file:
        lines = list(file)
    documents = create_documents(lines, tokenizer)
    tokenizing = time.perf_counter() - began
    if len(documents) < 2:
        raise SystemExit(f"{path} has {len(documents)} documents; at least 2 are needed")
    samples = {
        # `datasets` would split a list into shards of one document each.
        "documents": tuple(documents),
        "tokenizer": tokenizer,
        "repeats": repeats,
        "max_seq_length": MAX_SEQ_LENGTH,
    }
    examples, generating, writing = store(samples, output)
    return {
        "bytes": sum(len(line.encode()) for line in lines),
        "documents": len(documents),
        "examples": examples,
        "tokenizing_seconds": round(tokenizing, 3),
        "generating_seconds": round(generating, 3),
        "parquet_seconds": round(writing, 3),
        "examples_per_second": round(examples / (tokenizing + generating + writing), 1),
    }


def main() -> None:
    """Measure the article's way and print a line of JSON."""
    parser = make_parser(__doc__, repeats=10)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="a Parquet file")
    options = parser.parse_args()
    print(json.dumps(measure(options.input, options.tokenizer, options.output, options.repeats)))


if __name__ == "__main__":
    main()
