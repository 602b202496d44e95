"""The table of huggingface/tokbench: known tokenizers on real texts, with all ids compared.

    python -m benchmarks.kernels.tokbench [--tokenizers FOLDER] [--texts FOLDER]

The folders have tokenizer.json files, named after their tokenizers, and texts, NAME.txt; none comes
with this repository. As there, a text is cut into documents of 10 KiB, 100 at most. They are
encoded, ten at a time, by the tokenizers library, by the rivals of `rival_encoders` and by
`SentenceTokenizer`, with a new tokenizer (cold) and once more (warm). A cell is a tokenizer and a
text; it counts as right if all ids are the library's. Rates are megabytes per second of processor
time with one thread.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read when the library first runs

from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from benchmarks.builds import MEGABYTE, read_local
from benchmarks.console import make_parser, print_table, report
from benchmarks.kernels.rival_encoders import RIVALS, Batches, measure_rival
from benchmarks.measure import time_call
from benchmarks.rivals import label, name_problem
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer

LIBRARY, OURS = "tokenizers", "corpusmill"
DOCUMENT_BYTES, MOST_DOCUMENTS, BATCH = 10 * 1024, 100, 10
_CLEARLY = 1.25


class Rates(NamedTuple):
    """Megabytes per second, in a cell that is right."""

    cold: float
    warm: float


Cells = dict[tuple[str, str], dict[str, Rates]]


def read_documents(path: Path) -> list[list[str]]:
    """Return the documents of a text in batches."""
    content, documents, start = path.read_bytes(), list[str](), 0
    while start < len(content) and len(documents) < MOST_DOCUMENTS:
        stop = min(start + DOCUMENT_BYTES, len(content))
        while stop < len(content) and content[stop] & 0xC0 == 0x80:
            stop -= 1
        documents.append(content[start:stop].decode())
        start = stop
    return [documents[place : place + BATCH] for place in range(0, len(documents), BATCH)]


def encode_plainly(library: Tokenizer, documents: list[str]) -> np.ndarray:
    """Return the ids of documents by the library, joined."""
    rows = library.encode_batch_fast(documents, add_special_tokens=False)
    return np.fromiter(chain.from_iterable(row.ids for row in rows), np.int64)


def encode_ours(tokenizer: SentenceTokenizer, documents: list[str]) -> np.ndarray:
    """Return the ids of documents, joined."""
    encoded = [document.encode() for document in documents]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return tokenizer.encode(np.frombuffer(b"".join(encoded), np.uint8), offsets)[0]


def measure_ours(json: str, dtype: np.dtype, batches: Batches) -> Rates | None:
    """Return our rates; None if an id is another one than expected."""
    tokenizer, size = SentenceTokenizer(json, dtype), count_bytes(batches)
    taken, right = list[float](), True
    for _ in range(2):
        seconds = 0.0
        for documents, expected in batches:
            ids, more = time_call(partial(encode_ours, tokenizer, documents))
            seconds, right = seconds + more, right and np.array_equal(ids, expected)
        taken.append(size / seconds)
    return Rates(*taken) if right else None


def count_bytes(batches: Batches) -> float:
    """Return the size of texts in megabytes."""
    return sum(len(one.encode()) for documents, _ in batches for one in documents) / MEGABYTE


def measure_tokenizer(path: Path, texts: Mapping[str, list[list[str]]]) -> Cells:
    """Return the rates of all who are right, by tokenizer and text."""
    file = read_tokenizer(str(path), read_local)
    library, cells = Tokenizer.from_str(file.json), Cells()
    expected = dict[str, Batches]()
    encode_ours(SentenceTokenizer(file.json, file.token_dtype), ["It compiles. \u6771\u4eac"])
    for text, batches in texts.items():
        own = [time_call(partial(encode_plainly, library, documents)) for documents in batches]
        expected[text] = [
            (documents, ids) for documents, (ids, _) in zip(batches, own, strict=True)
        ]
        rate = count_bytes(expected[text]) / sum(seconds for _, seconds in own)
        cells[path.stem, text] = {LIBRARY: Rates(rate, rate)}
        if rates := measure_ours(file.json, file.token_dtype, expected[text]):
            cells[path.stem, text][OURS] = rates
    for rival in RIVALS:
        report(f"{path.stem}, {rival} ...")
        for text, taken in _ask(rival, file.json, expected).items():
            if not taken["others"]:
                size = count_bytes(expected[text])
                cells[path.stem, text][rival] = Rates(size / taken["first"], size / taken["again"])
    return cells


def _ask(rival: str, json: str, expected: Mapping[str, Batches]) -> dict[str, Any]:
    try:
        taken = measure_rival(rival, json, expected)
    except RuntimeError as error:
        report(name_problem(error))
        return {}
    if "refused" in taken:
        report(f"{label(rival)} refuses it: {taken['refused'].splitlines()[0]}")
    return {} if "refused" in taken else taken


def print_summary(cells: Cells) -> None:
    """Print, for each way, how many cells are right, and how it compares with ours in these."""
    rows = []
    for way in (LIBRARY, *RIVALS, OURS):
        both = [cell for cell in cells.values() if way in cell and OURS in cell]
        ratios = [
            [cell[OURS][turn] / cell[way][turn] for cell in both]
            for turn in range(len(Rates._fields))
        ]
        first = [
            sum(cell[way][turn] == max(rates[turn] for rates in cell.values()) for cell in both)
            for turn in range(len(ratios))
        ]
        means = [f"{geometric_mean(ratio):.2f}" if ratio else "-" for ratio in ratios]
        right = sum(way in cell for cell in cells.values())
        name = label(way) if way in RIVALS else way
        rows.append([name, f"{right} of {len(cells)}", *means, *map(str, first)])
    headings = (
        "", "right", "ours, times its rate: cold", "ours, times its rate: warm",
        "fastest: cold", "fastest: warm",
    )  # fmt: skip
    print_table(headings, rows)


def print_rates(cells: Cells) -> None:
    """Print the rates of each tokenizer: of all texts together, if all are right."""
    tokenizers = dict.fromkeys(tokenizer for tokenizer, _ in cells)
    ways = (LIBRARY, *RIVALS, OURS)
    rows = []
    for tokenizer in tokenizers:
        own = [cell for (name, _), cell in cells.items() if name == tokenizer]
        row = [tokenizer]
        for way in ways:
            rates = [cell[way] for cell in own if way in cell]
            for turn in range(1 if way == LIBRARY else 2):
                mean = geometric_mean(rate[turn] for rate in rates) if rates else 0
                few = "" if len(rates) == len(own) else f" in {len(rates)}"
                row.append(f"{mean:.1f}{few}" if rates else "-")
        rows.append(row)
    names = [label(way) if way in RIVALS else way for way in ways[1:]]
    turns = (f"{name}, {turn}" for name in names for turn in Rates._fields)
    print_table(("MB/s, mean of the texts", LIBRARY, *turns), rows)


def print_slower(cells: Cells) -> None:
    """Print the cells in which someone else is clearly faster."""
    rows = []
    for (tokenizer, text), cell in cells.items():
        for turn, name in enumerate(Rates._fields):
            own = cell[OURS][turn] if OURS in cell else 0.0
            way = max(cell, key=lambda way: cell[way][turn])
            if cell[way][turn] > _CLEARLY * own:
                fastest = f"{label(way) if way in RIVALS else way}: {cell[way][turn]:.0f}"
                rows.append([f"{tokenizer}, {text}, {name}", f"{own:.0f}", fastest])
    print_table(("MB/s, where another is faster by a quarter", OURS, "the fastest"), rows)


def main() -> None:
    """Measure and print the tables."""
    folder = "benchmark-data/tokbench"
    parser = make_parser(__doc__, tokenizers=f"{folder}/tokenizers", texts=f"{folder}/texts")
    arguments = parser.parse_args()
    paths = sorted(Path(arguments.texts).glob("*.txt"))
    texts, cells = {path.stem: read_documents(path) for path in paths}, Cells()
    for path in sorted(Path(arguments.tokenizers).glob("*.json")):
        cells |= measure_tokenizer(path, texts)
    for show in (print_summary, print_rates, print_slower):
        show(cells)


if __name__ == "__main__":
    main()
