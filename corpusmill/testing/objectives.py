"""Checks of an objective, as the job, `verify` and the readers use it."""

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import (
    ANY_LENGTH,
    NO_PAD,
    Column,
    Role,
    arrow_schema,
    check_columns,
    column_of,
    tokens_of,
)
from corpusmill.dataset.accounting import Expected, find_imbalances
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import add_all, as_mapping, recount
from corpusmill.dataset.shards import read_shard
from corpusmill.formats.output_options import OutputOptions, Padding
from corpusmill.layout.sorting import sort_rows
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.reading.cache.unpacking import check_rows, unpack_batch
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.rows import Lists
from corpusmill.testing.datasets import SmallBuild, keyed_rows, pool_of, small_text, write_dataset
from corpusmill.tokenization.tokenizer_file import SpecialTokens, TokenizerFile, ids_of
from corpusmill.verification.check_data_set import verify


def check_spans(
    columns: Sequence[Column],
    rows: pa.RecordBatch,
    documents: pa.RecordBatch,
    special: SpecialTokens,
    is_marked: bool,
) -> None:
    """Check that the spans of rows lie in their documents, and name the rows' tokens.

    Special tokens are left out on both sides. Masks are undone by the columns of predictions; where
    there is a column of targets, their order among the row's tokens is not checked.

    Args:
        columns: the columns of the data set.
        rows: as `pack` returns them, with the column SPANS.
        documents: all documents of which rows can be made, tokenized.
        special: the tokenizer's special tokens.
        is_marked: whether the ids of documents are marked by a word rule.

    Raises:
        AssertionError: they do not; the message says what differs.
    """
    ids, sentences = (documents.column(name).to_pylist() for name in ("document", "sentences"))
    arrays = (np.array([*chain(*own)], np.int64) for own in sentences)
    own_ids = ((ids_of(tokens) if is_marked else tokens).tolist() for tokens in arrays)
    texts = dict(zip(ids, own_ids, strict=True))
    is_ordered = column_of(columns, Role.TARGET_IDS) is None
    for row in rows.to_pylist():
        spans = row[SPANS.name]
        expected, tokens = (
            [token for token in ids if token not in special.all_ids]
            for ids in (_tokens_of(spans, texts), _unmask(columns, row))
        )
        if not is_ordered:
            expected, tokens = sorted(expected), sorted(tokens)
        assert tokens == expected, f"the tokens of a row are not those of its spans, {spans}"


def _tokens_of(spans: Sequence[int], texts: Mapping[int, Sequence[int]]) -> list[int]:
    assert len(spans) % 3 == 0, f"the spans {spans} are not three numbers each"
    tokens: list[int] = []
    following = (-1, 0)
    for document, first, length in zip(spans[::3], spans[1::3], spans[2::3], strict=True):
        assert document in texts, f"a span is of the document {document}, which does not exist"
        span = f"the span of {length} tokens from {first} on of the document {document}"
        assert length > 0, f"{span} is empty"
        assert first + length <= len(texts[document]), f"{span} ends after it"
        assert (document, first) != following, f"{span} continues the one before, and is not joined"
        following = (document, first + length)
        tokens += texts[document][first : first + length]
    return tokens


def _unmask(columns: Sequence[Column], row: Mapping[str, Any]) -> list[int]:
    """Return the tokens of a row as they were before they were masked, and those of its targets."""
    tokens = [*row[tokens_of(columns).name]]
    by_role: dict[Role, list[int]] = {
        column.role: row[column.name] for column in columns if column.name in row
    }
    pairs = zip(by_role.get(Role.POSITIONS, []), by_role.get(Role.PREDICTED_IDS, []), strict=True)
    for place, token in pairs:
        tokens[place] = token
    return tokens + by_role.get(Role.TARGET_IDS, [])


_SEED = 3
_JSON = "its {} change when they are written as JSON: use lists, texts, numbers, True and None"
_PICKLED = "it changes when it is pickled: let it be a frozen dataclass of what `bind` is given"
_BATCHES = (
    "`build` returns other rows for other batches of documents: draw from keys of the document, "
    "not from a generator with a state"
)


def check_objective(
    options: ObjectiveOptions, tokenizer: TokenizerFile, text: bytes | None = None
) -> None:
    """Check that an objective keeps what the job, `verify` and the readers rely on.

    It is registered under its name, travels to workers, and its columns can be verified and read.
    Its rows are the same however documents come in batches and rows are cut before they are packed;
    its counts balance and are those of the written rows. Data sets of it, ragged and padded, are
    verified, and the readers give the rows that were built, each once. If it builds SPANS, they lie
    in their documents, and their tokens are those of the rows.

    Args:
        options: the objective's options.
        tokenizer: with the special tokens that it needs (`small_tokenizer`).
        text: the corpus (by default `small_text()`).

    Raises:
        AssertionError: it does not; the message says what differs.
    """
    build = SmallBuild(options, tokenizer, small_text() if text is None else text)
    with _named("`bind`, or the tokenizing before it,"):
        objective = build.bind()
    with _named("what is registered, pickled and written as JSON"):
        _check_registration(objective, build)
    with _named("`build`"):
        _check_building(objective, build)
    with _named("`count`, `pack`, `measure` or `finish`"):
        _check_packing(objective, build)
    for padding in get_args(Padding):
        if padding == "max_length" and not _can_pad(objective):
            continue
        output = OutputOptions(padding=padding)
        with (
            TemporaryDirectory(prefix="corpusmill-") as folder,
            _named(f"a data set with the padding {padding}"),
        ):
            _check_dataset(Path(folder), replace(build, output=output))


@contextmanager
def _named(part: str) -> Iterator[None]:
    """Say which part of an objective failed: the traceback shows ours, and not the author's."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{part} raises {type(error).__name__}: {error}") from error


def _check_registration(objective: Objective, build: SmallBuild) -> None:
    name, options = objective.name, build.objective
    assert name in OBJECTIVES, (
        f"no entry point of {OBJECTIVES.group} has the name {name!r}: add it to pyproject.toml, "
        "and install the package again"
    )
    assert OBJECTIVES[name] is type(options), f"the entry point {name!r} is another class"
    assert pickle.loads(pickle.dumps(objective)) == objective, _PICKLED  # noqa: S301
    as_json = json.loads(json.dumps(asdict(options)))
    assert type(options)(**as_json) == options, _JSON.format("options")
    assert json.loads(json.dumps(dict(objective.facts))) == objective.facts, _JSON.format("facts")
    check_columns(objective.columns, build.tokenizer.vocab_size)
    tokens_of(objective.built_columns)
    spans = [column.role is Role.SPANS for column in objective.built_columns]
    assert not any(spans[:-1]), "SPANS is not the last of its `built_columns`: put it there"


def _check_building(objective: Objective, build: SmallBuild) -> None:
    """Rows depend on their own document alone, not on the others of a batch."""
    documents = build.tokenize().documents
    for number in range(min(objective.repeats, 2)):
        whole = _by_identity(
            _build_rows(objective, documents, number, build.seed, documents.num_rows)
        )
        assert len(whole), "`build` returns no rows for the text: give check_objective a longer one"
        for size in (1, 7):
            parts = _by_identity(_build_rows(objective, documents, number, build.seed, size))
            assert parts.keys() == whole.keys(), _BATCHES
            for identity, row in whole.items():
                assert parts[identity] == row, (
                    f"{_BATCHES}: the row {identity} (document, repeat, index) differs"
                )
    names = [field.name for field in arrow_schema(objective.built_columns)]
    built = list(next(iter(whole.values())))
    assert built == names, f"`build` returns the columns {built}, and `built_columns` are {names}"


def _build_rows(
    objective: Objective, documents: pa.RecordBatch, number: int, seed: int, size: int
) -> Iterator[pa.RecordBatch]:
    pool = pool_of(documents, np.zeros(documents.num_rows, np.uint8))
    for begin in range(0, documents.num_rows, size):
        some = documents.slice(begin, size)
        splits = np.zeros(some.num_rows, np.uint8)
        rows = objective.build(some, Repeat(number, pool, splits, seed))
        rows.validate(full=True)
        yield rows


def _by_identity(batches: Iterator[pa.RecordBatch]) -> dict[tuple[int, ...], dict[str, Any]]:
    rows: dict[tuple[int, ...], dict[str, Any]] = {}
    for batch in batches:
        lacking = {"document", "repeat", "index"} - {*batch.schema.names}
        assert not lacking, f"the rows of `build` lack {', '.join(sorted(lacking))}, their identity"
        for row in batch.to_pylist():
            identity = (row.pop("document"), row.pop("repeat"), row.pop("index"))
            assert identity not in rows, (
                f"`build` returns two rows that are {identity} (document, repeat, index)"
            )
            rows[identity] = row
    return rows


def _check_packing(objective: Objective, build: SmallBuild) -> None:
    """The written rows do not depend on batches, balance, and are what was measured."""
    documents, counts = build.tokenize().documents, Counter(build.tokenize().counts)
    keyed = keyed_rows(build)
    for rows in keyed:
        counted = objective.count(documents, rows)
        counts.update({f"build.{name}": number for name, number in counted.items()})
        counts.update({"build.passes": documents.num_rows, "build.examples": rows.num_rows})
    packed = pa.concat_batches(objective.pack(sort_rows(list(keyed), 10**9)))
    for size in (1, 50):
        again = pa.concat_batches(objective.pack(sort_rows(list(keyed), size)))
        assert again == packed, f"`pack` returns other rows for batches of {size}"
    if SPANS in objective.built_columns:
        special, is_marked = build.tokenizer.special, bool(objective.words)
        check_spans(objective.columns, packed, documents, special, is_marked)
    counts["write.rows"] = packed.num_rows
    measured: dict[str, np.ndarray] = {}
    add_all(measured, objective.measure(packed))
    if "pieces" in measured:
        counts["write.pieces"] = int(measured["pieces"] @ np.arange(len(measured["pieces"])))
    expected = Expected(counts["read.ranges"], -1, 1, objective.repeats)
    problems = find_imbalances(counts, expected, packed.num_rows, 1)
    assert not problems, f"its counts do not balance: {problems[0]}"
    for padded in (False, True) if _can_pad(objective) else (False,):
        _check_finished(objective, packed, padded, build.tokenizer.vocab_size, measured)


def _check_finished(
    objective: Objective,
    packed: pa.RecordBatch,
    padded: bool,
    vocab_size: int,
    measured: Mapping[str, np.ndarray],
) -> None:
    columns = objective.columns
    rows = objective.finish(packed, padded)
    assert rows.schema == arrow_schema(columns, padded), "`finish` does not return its columns"
    lengths = np.diff(ragged.from_arrow(packed.column(columns[0].name))[1])
    longest = int(lengths.max())
    check_rows(unpack_batch(rows, columns), columns, vocab_size, longest)
    counted = recount(rows, columns, longest)
    for name, counts in counted.items():
        same = name in measured and as_mapping(measured[name]) == as_mapping(counts)
        assert same, f"`measure` does not give the distribution {name} of the written rows"


def _check_dataset(folder: Path, build: SmallBuild) -> None:
    manifest = write_dataset(folder / "data", build)
    problems = verify(folder / "data")
    assert not problems, f"`verify` finds {problems[0]}"
    data = DataSet(folder / "data", cache_folder=folder / "cache")
    _check_rows_read(data, manifest)
    if data.columns[0].width == ANY_LENGTH:
        return  # readers cut a stream into windows
    loader = Loader(make_batches(data, 8, seed=_SEED), prefetch_factor=0)
    sizes = [len(next(iter(batch.values()))) for batch in loader]
    assert sum(sizes) == len(data), "the batches of an epoch do not have each row once"
    collator = collator_for(data)
    one = collator(collator.prepare(data.take(np.arange(2))))
    again = collator(collator.prepare(data.take(np.arange(2))))
    for name, values in one.items():
        assert np.array_equal(values, again[name]), f"{name} of the same rows differs"


def _check_rows_read(data: DataSet, manifest: Manifest) -> None:
    number = 0
    for shard in manifest.splits["train"].shards:
        for batch in read_shard(data.folder, manifest, shard.file):
            stored = unpack_batch(batch, data.columns)
            read = data.take(np.arange(number, number + batch.num_rows))
            for name, values in stored.items():
                pair = (values, read.columns[name])
                parts = zip(
                    *(part if isinstance(part, Lists) else [part] for part in pair), strict=True
                )
                same = all(np.array_equal(*two) for two in parts)
                assert same, f"the readers give another {name} than {shard.file} holds"
            number += batch.num_rows
    assert number == len(data), "the readers give another number of rows than were written"


def _can_pad(objective: Objective) -> bool:
    lists = [column for column in objective.columns if column.width]
    return all(column.width != ANY_LENGTH and column.pad != NO_PAD for column in lists)
