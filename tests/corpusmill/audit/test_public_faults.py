"""Copies in small of what people trained on for weeks, in every format that can hold it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers

from tests.tools.jobs import run_here
from tests.tools.token_files import (
    BEGIN,
    END,
    PAD,
    STREAMS,
    TURN,
    TURN_END,
    WITH_COLUMNS,
    WITH_DOCUMENTS,
    Columns,
    Rows,
    Writer,
    encode_texts,
    make_tokenizer,
    save_tokenizer,
)

ROWS = 200


def audit(folder: Path, *flags: str) -> dict[str, str]:
    """Audit a folder, and return what is found by the names of the findings."""
    report = folder.parent / "report.json"
    run_here("audit", folder, "--json", report, *flags)
    findings = json.loads(report.read_text())["findings"]
    return {finding["name"]: finding["what"] for finding in findings}


def write_all(
    folder: Path, writers: Mapping[str, Writer], rows: Rows, columns: Columns | None = None
) -> Iterator[tuple[str, Path]]:
    """Write rows in each format, to a folder of its own."""
    for name, write in writers.items():
        place = folder / name
        place.mkdir(parents=True)
        write(place, rows, columns or {})
        yield name, place


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer") / "llama")


def assert_found(
    folder: Path,
    tokenizer: str,
    cases: Mapping[str, tuple[Rows, Columns]],
    writers: Mapping[str, Writer],
) -> None:
    """Check that each case is found in each format, and nothing else."""
    wrong = []
    for name, (rows, columns) in cases.items():
        for form, place in write_all(folder / name.replace(" ", "-"), writers, rows, columns):
            found = audit(place, "--tokenizer", tokenizer)
            if [*found] != [name] * (name != "none"):
                wrong.append((name, form, found))
    assert not wrong


def test_documents(tmp_path: Path, tokenizer: str) -> None:
    rows = encode_texts(ROWS)
    assert_found(tmp_path, tokenizer, {
        "none": (rows, {}),
        # 63 TB without them: marin-community/marin#5034 and #5149.
        "begin of text": ([row[1:] for row in rows], {}),
        # Documents without a terminator merge with the next ones: allenai/OLMo-core#843.
        "end of text": ([row[: -1 if n % 50 == 0 else None] for n, row in enumerate(rows)], {}),
        "merged documents": ([*(rows[n] + rows[n + 1] for n in range(0, 20, 2)), *rows[20:]], {}),
        # The tokenizer adds one, and a template another.
        "doubled marks": ([[BEGIN, *row] for row in rows[1:]] + [[*rows[0], END]], {}),
        # A shard that was joined twice.
        "repeated windows": ([*rows, *rows], {}),
        "empty rows": ([*rows, *[[] for _ in range(20)]], {}),
        "ids beyond the vocabulary": ([*rows[1:], [BEGIN, 40_000, END]], {}),
    }, WITH_DOCUMENTS)  # fmt: skip


def test_streams(tmp_path: Path, tokenizer: str) -> None:
    rows = encode_texts(ROWS)
    assert_found(tmp_path, tokenizer, {
        "none": (rows, {}),
        "begin of text": ([row[1:] for row in rows], {}),
        "end of text": ([row[:-1] for row in rows], {}),
        "doubled marks": ([[*row, END] for row in rows], {}),
        "repeated windows": ([*rows, *rows], {}),
        # Made larger than what was written.
        "runs of one id": ([*rows, [0] * 3000], {}),
    }, STREAMS)  # fmt: skip


def test_another_pre_tokenizer_is_named(tmp_path: Path, tokenizer: str) -> None:
    # 9.8 % more tokens for six months: allenai/open-instruct#1896.
    other = Tokenizer.from_str(make_tokenizer().to_str())
    other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    wrong = []
    for form, place in write_all(
        tmp_path, {**WITH_DOCUMENTS, **STREAMS}, encode_texts(ROWS, other)
    ):
        found = audit(place, "--tokenizer", tokenizer)
        if [*found] != ["other tokens"] or "with GPT-2's pre-tokenizer" not in found[
            "other tokens"
        ]:
            wrong.append((form, found))
    assert not wrong


def make_conversations() -> tuple[list[list[int]], list[list[int]]]:
    """Return rows of two turns of a question and an answer each, and 1 where they are learned."""
    texts = [row[1:-1] for row in encode_texts(2 * ROWS)]
    rows, masks = [], []
    for n in range(0, len(texts), 4):
        row, mask = [BEGIN], [0]
        for turn, text in enumerate(texts[n : n + 4]):
            said = text[: 20 + (n + turn) % 17]
            row += [TURN, *said, TURN_END]
            mask += [0, *[turn % 2] * len(said), turn % 2]
        rows.append(row)
        masks.append(mask)
    return rows, masks


def learn(rows: Rows, masks: Rows) -> list[list[int]]:
    return [
        [token if is_learned else -100 for token, is_learned in zip(row, mask, strict=True)]
        for row, mask in zip(rows, masks, strict=True)
    ]


def test_labels(tmp_path: Path, tokenizer: str) -> None:
    rows, masks = make_conversations()
    labels, width = learn(rows, masks), max(map(len, rows))
    nothing = [[0] * len(mask) if n % 20 == 0 else mask for n, mask in enumerate(masks)]
    without_ends = [
        [
            int(is_learned and (token != TURN_END or n == len(row) - 1))
            for n, (token, is_learned) in enumerate(zip(row, mask, strict=True))
        ]
        for row, mask in zip(rows, masks, strict=True)
    ]
    filled = [row + [PAD] * (width - len(row)) for row in labels]
    padded = [row + [PAD] * (width - len(row)) for row in rows]
    assert_found(tmp_path, tokenizer, {
        "none": (rows, {"labels": labels}),
        # Masks of everything or nothing: instructlab/training#243, huggingface/open-r1#517.
        "masks without effect": (rows, {"labels": rows}),
        "unlearned rows": (rows, {"labels": learn(rows, nothing)}),
        # Shifted by one twice: huggingface/transformers#44642.
        "shifted labels": (rows, {"labels": [[*row[1:], -100] for row in labels]}),
        "labels of other tokens": (rows, {"labels": [row[::-1] for row in labels]}),
        "learned padding": (padded, {"labels": filled}),
        "unlearned ends": (rows, {"labels": learn(rows, without_ends)}),
    }, WITH_COLUMNS)  # fmt: skip


def test_packs(tmp_path: Path, tokenizer: str) -> None:
    texts = [row[1:-1] for row in encode_texts(2 * ROWS)]
    documents = [[BEGIN, *text[: 30 + n % 60], END] for n, text in enumerate(texts)]
    pairs = [documents[n : n + 2] for n in range(0, len(documents) - 1, 2)]
    rows, lengths = (
        [[*one, *two] for one, two in pairs],
        [[len(one), len(two)] for one, two in pairs],
    )
    positions = [[*range(one), *range(two)] for one, two in lengths]
    others = [[*range(one + 7), *range(two - 7)] for one, two in lengths]
    width = 150
    cut = [row[:width] for row in rows]
    cut_positions = [row[:width] for row in positions]
    assert_found(tmp_path, tokenizer, {
        "none": (rows, {"position_ids": positions, "seq_lengths": lengths}),
        # Packs that are cut where a document is too long: huggingface/trl#5075 and #5076.
        "cut documents": (cut, {"position_ids": cut_positions}),
        "unmarked boundaries": (rows, {"position_ids": others}),
        "contradicting columns": (rows, {"position_ids": others, "seq_lengths": lengths}),
    }, WITH_COLUMNS)  # fmt: skip
