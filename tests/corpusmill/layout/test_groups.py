"""Records are joined to the documents of a plain loop, however they are batched."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.layout.groups import (
    cut_documents,
    draw_groups,
    group_columns,
    heads_of,
    order_records,
    put_heads,
)
from corpusmill.layout.placement import Layout, SourceLayout

SCHEMA = pa.schema(
    [
        ("document", pa.uint64()),
        ("sentences", pa.list_(pa.list_(pa.int16()))),
        ("field:repo", pa.string()),
        ("field:n", pa.string()),
        *group_columns("int16"),
    ]
)
FIELD = "field:repo"


def make_records(number: int, draw: np.random.Generator) -> list[dict[str, Any]]:
    return [
        {
            "document": document,
            "sentences": [[int(draw.integers(99))] * int(draw.integers(1, 5)) for _ in range(2)],
            FIELD: ["a", "b", "", None][draw.integers(4)],
            "field:n": ["10", "9", "-1.5", "x", "10x", None, ""][draw.integers(7)],
            "group": document,
            "head": [100 + document] * int(draw.integers(3)),
            "first_head": [300 + document] * int(draw.integers(1, 3)),
        }
        for document in range(number)
    ]


def join_plainly(records: list[dict[str, Any]], most_tokens: int) -> list[list[int]]:
    documents, last = list[list[int]](), ""
    for record in records:
        text = [token for sentence in record["sentences"] for token in sentence]
        file = [*record["head"], *text]
        is_same = bool(record[FIELD]) and record[FIELD] == last
        if is_same and len(documents[-1]) + len(file) <= most_tokens:
            documents[-1] += file
        else:
            documents.append([*record["first_head"], *text])
        last = record[FIELD]
    return documents


@pytest.mark.parametrize("most_tokens", [1, 20, 10**6])
def test_documents_are_those_of_a_plain_loop(most_tokens: int) -> None:
    draw = np.random.default_rng(most_tokens)
    for number in (1, 2, 60):
        records = make_records(number, draw)
        records.sort(
            key=lambda record: (not record[FIELD], record[FIELD] or "", record["document"])
        )
        rows = pa.RecordBatch.from_pylist(records, schema=SCHEMA)
        cuts = sorted({0, *draw.integers(number, size=5).tolist(), number})
        batches = [rows.slice(begin, end - begin) for begin, end in pairwise(cuts)]
        built, heads = list[list[int]](), 0
        for part in cut_documents(batches, "repo", most_tokens):
            offsets = np.cumsum([0, *(sum(map(len, own)) for own in part["sentences"].to_pylist())])
            tokens = part["sentences"].flatten().flatten().to_numpy()
            joined, ends, shifts, firsts = put_heads(part, tokens, offsets)
            built += [joined[begin:end].tolist() for begin, end in pairwise(ends)]
            assert all(joined[offsets[:-1] + shifts] == tokens[offsets[:-1]])
            assert len(firsts) == len(ends) - 1
            heads += len(heads_of(part)[0])
        assert built == join_plainly(records, most_tokens)
        assert heads == sum(map(len, built)) - sum(len(t) for r in records for t in r["sentences"])


def test_records_are_ordered_by_group_value_and_id() -> None:
    """Numbers come before texts, what is missing last, and records without a group apart."""
    records = make_records(200, np.random.default_rng(1))
    rows = pa.RecordBatch.from_pylist(records, schema=SCHEMA)
    keys = order_records(rows, "repo", "n")
    ordered = [records[n] for n in sorted(range(200), key=keys.__getitem__)]
    rank = ["-1.5", "9", "10", "10x", "x", None]
    for one, next_one in pairwise(ordered):
        assert (one[FIELD] or "z") <= (next_one[FIELD] or "z")
        if (one[FIELD] or "z") == (next_one[FIELD] or "z"):
            places = [rank.index(record["field:n"] or None) for record in (one, next_one)]
            assert (places[0], one["document"]) < (places[1], next_one["document"])
    assert [
        key[2] for key in sorted(order_records(rows, "repo", None)) if key[0] == (False, "a")
    ] == [record["document"] for record in records if record[FIELD] == "a"]


def test_groups_are_drawn_within_their_source() -> None:
    layout = Layout(0, 2, 0, (SourceLayout(0, 0.5, 1, 0), SourceLayout(3 << 40, 1, 1, 0)))
    records = make_records(200, np.random.default_rng(2))
    for number, record in enumerate(records):
        record["document"] = number + ((3 << 40) if number % 2 else (1 << 40))
    rows = pa.RecordBatch.from_pylist(records, schema=SCHEMA)
    groups = draw_groups(rows, "repo", layout)
    ids = rows.column("document").to_numpy()
    assert (layout.sources_of(groups) == layout.sources_of(ids)).all()
    drawn = {
        (record[FIELD], n % 2): set[int]() for n, record in enumerate(records) if record[FIELD]
    }
    for number, record in enumerate(records):
        if record[FIELD]:
            drawn[record[FIELD], number % 2].add(int(groups[number]))
        else:
            assert groups[number] == ids[number]
    assert {len(own) for own in drawn.values()} == {1}
    assert len(set.union(*drawn.values())) == 4
    plain = draw_groups(rows, "repo", Layout(0, 2, 0))
    assert len({*plain[[bool(record[FIELD]) for record in records]].tolist()}) == 2
