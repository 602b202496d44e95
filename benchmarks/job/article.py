"""BERT examples the way the article makes them, to compare with: one process, Python lists.

The article is "Preparing Data for BERT Training" (seed 000): every line is tokenized by itself,
pairs are cut, truncated, masked and padded in plain Python, ``datasets`` collects the samples from
a generator and writes them as Parquet. Here the lines come from a file instead of the hub.
"""

import argparse
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

Document = list[list[int]]

MASKED_LM_PROB = 0.15
MAX_PREDICTIONS_PER_SEQ = 20
SHORT_SEQ_PROB = 0.1


def read_lines(path: Path, limit_bytes: int | None = None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, ending with the one that reaches ``limit_bytes``."""
    read = 0
    with path.open("rb") as file:
        for line in file:
            yield line.decode()
            read += len(line)
            if limit_bytes is not None and read >= limit_bytes:
                return


def create_documents(lines: list[str], tokenizer: tokenizers.Tokenizer) -> list[Document]:
    """Return the documents: token ids, line by line; an empty or title line ends a document."""
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
    """Yield the samples of all documents, ``repeats`` times over.

    A sample is {"tokens": [1, 87, 3, ...], "segment_ids": [0, 0, 1, ...], "is_random_next": True,
    "masked_positions": [1], "masked_labels": [912]}; the first two are ``max_seq_length`` long.
    """
    for index in list(range(len(documents))) * repeats:
        for first, second, is_random_next in sentence_pairs(documents, index, max_seq_length - 3):
            yield create_sample(first, second, is_random_next, tokenizer, max_seq_length)


def sentence_pairs(
    documents: Sequence[Document], index: int, max_length: int
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Yield pairs of segments from one document, and whether the second is from another one."""
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
    """Return sentences from a random place of another document than ``index``."""
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
    """Truncate, mask and pad one pair; see ``create_samples`` for what it returns."""
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
    """Drop tokens from the longer list, at a random side, until both fit: in place."""
    while len(first) + len(second) > max_length:
        longer = first if len(first) > len(second) else second
        longer.pop(0 if random.random() < 0.5 else -1)


def store(samples: dict[str, Any], output: Path) -> tuple[int, float, float]:
    """Collect samples in a ``datasets.Dataset`` and write it as Parquet.

    Args:
        samples: The arguments of ``create_samples``.
        output: The Parquet file; the dataset's cache lies beside it until it is written.

    Returns:
        The number of samples, the seconds to collect them and the seconds to write them.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="article-", dir=output.parent) as cache:
        dataset = datasets.Dataset.from_generator(
            create_samples, cache_dir=cache, gen_kwargs=samples
        )
        generated = time.perf_counter()
        dataset.to_parquet(output)
        written = time.perf_counter()
        examples = len(dataset)
        del dataset  # it maps files of the folder that is removed now
    return examples, generated - started, written - generated


def measure(
    path: Path,
    tokenizer_path: Path,
    output: Path,
    repeats: int = 10,
    limit_bytes: int | None = None,
    max_seq_length: int = 512,
    seed: int = 0,
) -> dict[str, int | float]:
    """Write the samples of a text file as Parquet and return sizes, counts and seconds.

    Raises:
        SystemExit: The text has fewer than two documents, so that no random one can be drawn.
    """
    huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()
    random.seed(seed)
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_path))
    started = time.perf_counter()
    lines = list(read_lines(path, limit_bytes))
    documents = create_documents(lines, tokenizer)
    tokenizing = time.perf_counter() - started
    if len(documents) < 2:
        raise SystemExit(f"{path} has {len(documents)} documents; at least 2 are needed")
    samples = {
        # A list would be taken for a list of shards, each document given by itself.
        "documents": tuple(documents),
        "tokenizer": tokenizer,
        "repeats": repeats,
        "max_seq_length": max_seq_length,
    }
    examples, generating, parquet = store(samples, output)
    return {
        "bytes": sum(len(line.encode()) for line in lines),
        "documents": len(documents),
        "examples": examples,
        "tokenizing_seconds": round(tokenizing, 3),
        "generating_seconds": round(generating, 3),
        "parquet_seconds": round(parquet, 3),
        "examples_per_second": round(examples / (tokenizing + generating + parquet), 1),
    }


def main() -> None:
    """Measure the article's way from the command line; prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--limit-bytes", type=int)
    options = parser.parse_args()
    result = measure(
        options.input, options.tokenizer, options.output, options.repeats, options.limit_bytes
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
