"""Rows are traced to their documents, and documents to their rows."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from corpusmill.commands.command import Call
from corpusmill.commands.trace import Trace
from corpusmill.console.terminal import Terminal
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError, count_things, option
from corpusmill.provenance.read_again import Inputs
from corpusmill.provenance.search import search_documents
from corpusmill.provenance.store import DocumentRecord, RowOrigin, pass_on
from corpusmill.provenance.tracer import TracedDocument, TracedRow, TracedSpan, Tracer
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.order.schedule import FixedBatches
from corpusmill.reading.token_packs import TokenPacks
from corpusmill.reading.token_windows import TokenWindows
from corpusmill.reading.tracing import Reading, Run, Step, run_of, stored_rows

# The most rows of chosen documents that are in memory at a time.
_ROWS_AT_ONCE = 2**16
_STATE_KEYS = {"version", "samples", "order", "number"}
# Characters of a text that are shown; JSON has all of it.
_SHOWN = 300

Item = TypeVar("Item")


def trace(command: Trace, call: Call) -> int:
    """Print where rows come from, or which rows hold documents.

    Raises:
        UserError: the folder does not hold a data set with provenance, or what is to be traced is
            not in it.
    """
    command.check()
    data_set = DataSet(command.folder, command.split)
    inputs = Inputs(command.input) if command.text else None
    # Rows of documents are printed as JSON while files are searched, and no line may be between.
    shows = pass_on if command.json and call.console.is_terminal else follow
    tracer = Tracer(data_set.folder, data_set.manifest, inputs, shows)
    if command.row and command.cuts:
        samples = _open_samples(data_set, command)
        numbers = command.row[: command.limit or None]
        read = [{"sample": _check_row(command.split, row, len(samples))} for row in numbers]
        _print(command, call, _trace_samples(tracer, samples, read, command.split))
    elif command.row:
        rows = [_row_of(data_set.manifest, command, row) for row in command.row]
        _print(command, call, tracer.trace(command.split, rows[: command.limit or None]))
    elif command.step is not None or command.state:
        samples = _open_samples(data_set, command)
        step = _find_step(samples, command)
        _print(command, call, _trace_step(tracer, samples, step, command))
    else:
        _trace_documents(tracer, data_set, command, call)
    return 0


def _row_of(manifest: Manifest, command: Trace, row: int) -> int:
    """Return the number of a row in its split."""
    shards = manifest.splits[command.split].shards
    first, end, place = 0, manifest.splits[command.split].rows, command.split
    if command.shard is not None:
        names = [shard.file for shard in shards]
        number = int(command.shard) if command.shard.isdecimal() else -1
        name = manifest.path_of(command.shard)
        number = names.index(name) if name in names else number
        if not 0 <= number < len(shards):
            cause = f"{command.split} has the shards 0 to {len(shards) - 1}, from {names[0]} on"
            raise UserError(option("shard", command.shard), cause, "Give one of them")
        first = sum(shard.rows for shard in shards[:number])
        end, place = shards[number].rows, names[number]
    return first + _check_row(place, row, end)


def _check_row(place: str, row: int, end: int) -> int:
    if not 0 <= row < end:
        rows = count_things(end, "row")
        raise UserError(option("row", row), f"{place} has {rows}", f"Give 0 to {end - 1}")
    return row


def _open_samples(data_set: DataSet, command: Trace) -> Samples:
    if command.max_seq_length is not None:
        return TokenPacks(data_set, command.max_seq_length, command.packs_file)
    if command.context_len is not None:
        return TokenWindows(data_set, command.context_len, command.stride)
    return data_set


def _run(samples: Samples, command: Trace) -> Run:
    order = samples.order(command.seed, command.shuffle, command.window, command.lanes)
    batching = FixedBatches(command.batch_size or 1, command.drop_last)
    return Run(order, batching, command.world_size)


def _find_step(samples: Samples, command: Trace) -> Step:
    if command.state is None:
        return _run(samples, command).step(command.epoch, command.step or 0)
    state = _find_state(_read_state(command.state))
    if state is None:
        cause = "it holds no state of a reader of corpusmill"
        raise UserError(option("state", command.state), cause, "Save what state_dict() returns")
    run = run_of(samples, state, command.batch_size or 1, command.world_size, command.drop_last)
    return run.step_before(state)


def _read_state(path: str) -> Any:
    """Read a state from JSON, or from a file of torch.save."""
    flag = option("state", path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UserError(flag, error.strerror or str(error), "Check the path") from None
    try:
        return json.loads(content)
    except ValueError:
        pass
    try:
        from corpusmill.reading.torch.dataset import load_state  # noqa: PLC0415  needs torch
    except ModuleNotFoundError:
        raise UserError(flag, "it is not JSON", "Install torch to read its files") from None
    return load_state(path)


def _find_state(value: Any) -> Mapping[str, Any] | None:
    """Find the state of a reader in a checkpoint."""
    if isinstance(value, Mapping):
        if value.keys() >= _STATE_KEYS:
            return value
        value = list(value.values())
    found = map(_find_state, value) if isinstance(value, list | tuple) else iter(())
    return next((state for state in found if state is not None), None)


def _trace_step(tracer: Tracer, samples: Samples, step: Step, command: Trace) -> list[TracedRow]:
    """Return what each sample of a step is made of, with its rank."""
    if command.rank is not None and not 0 <= command.rank < len(step.batches):
        cause = f"the run has {count_things(len(step.batches), 'rank')}"
        raise UserError(option("rank", command.rank), cause, "Give a number from 0")
    places = [
        {"epoch": step.epoch, "step": step.number, "rank": rank, "sample": sample}
        for rank, batch in enumerate(step.batches) if command.rank in (None, rank)
        for sample in batch.tolist()
    ]  # fmt: skip
    return _trace_samples(tracer, samples, places, command.split)


def _trace_samples(
    tracer: Tracer, samples: Samples, places: Sequence[Mapping[str, int]], split: str
) -> list[TracedRow]:
    """Return what samples are made of, each with when it was read."""
    stored = stored_rows(samples, np.array([place["sample"] for place in places], np.int64))
    origins = tracer.find_origins(split, (row.row for rows in stored for row in rows))
    traced = tracer.describe([row.cut(origins[row.row]) for rows in stored for row in rows])
    read = (place for place, rows in zip(places, stored, strict=True) for _ in rows)
    return [replace(row, read=place) for row, place in zip(traced, read, strict=True)]


def _trace_documents(tracer: Tracer, data_set: DataSet, command: Trace, call: Call) -> None:
    records = _find_documents(tracer, data_set, command)
    if not records and not command.json:
        call.console.print("no document of the data set matches")
        return
    ids = np.array([record.document for record in records], np.uint64)
    rows = tracer.store.rows_of(ids)
    located = map(tracer.locate, records)
    if command.json:
        for document in located:
            call.console.print(json.dumps(document.to_json(), ensure_ascii=False))
        while part := list(islice(rows, _ROWS_AT_ONCE)):
            readings = _read_when(data_set, command, part)
            for row in part:
                names = ("split", "row", "shard", "shard_row", "documents")
                entry = {name: getattr(row, name) for name in names}
                if row in readings:
                    entry["read"] = [vars(reading) for reading in readings[row]]
                call.console.print(json.dumps(entry))
        return
    shown = list(islice(rows, command.limit or None))
    readings = _read_when(data_set, command, shown)
    total = len(shown) + sum(1 for _ in rows)
    print_documents(call.console, list(located), shown, total, readings, command.limit)


def _find_documents(tracer: Tracer, data_set: DataSet, command: Trace) -> Sequence[DocumentRecord]:
    if command.file is not None:
        return tracer.store.documents_at(command.file, command.offset or 0)
    if command.where is not None:
        return search_documents(data_set.folder, data_set.manifest, command.where)
    return list(tracer.store.documents(command.document).values())


def _read_when(
    data_set: DataSet, command: Trace, rows: Sequence[RowOrigin]
) -> Mapping[RowOrigin, list[Reading]]:
    """Return when a run reads rows of its split; nothing if its batches are not known."""
    if command.batch_size is None:
        return {}
    by_number = {row.row: row for row in rows if row.split == command.split}
    epochs, numbers = range(command.epoch, command.epoch + 1), np.array([*by_number], np.int64)
    found: dict[RowOrigin, list[Reading]] = {}
    for reading in _run(data_set, command).readings(numbers, epochs):
        found.setdefault(by_number[reading.sample], []).append(reading)
    return found


def _print(command: Trace, call: Call, rows: Sequence[TracedRow]) -> None:
    if command.json:
        for row in rows:
            call.console.print(json.dumps(row.to_json(), ensure_ascii=False))
    else:
        print_rows(call.console, rows)


def follow(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yield items, and show on a terminal how many there were; afterwards the line is gone.

    Args:
        items: the items.
        total: their number.
        what: what is done with them, in a word or two.
    """
    console = Terminal(stderr=True, force_jupyter=False)
    if not console.is_terminal:
        yield from items
        return
    from rich.progress import MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  slow

    columns = (TextColumn("{task.description}"), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total, description=what)


def print_rows(console: Console, rows: Iterable[TracedRow]) -> None:
    """Print rows, each with its documents and the text of its tokens."""
    for row in rows:
        read = "".join(f", {name} {number}" for name, number in row.read.items())
        origin = row.origin
        passes = f", repeat {origin.repeat}" if origin.repeat else ""
        console.print(
            f"{origin.split} row {origin.row:,}{read}: {origin.shard}, row {origin.shard_row:,}"
            f"{passes}"
        )
        for document in row.documents:
            console.print(f"  {_describe_document(document)}")
        for span in row.spans:
            console.print(f"    {_describe_span(span)}")
        if row.missing:
            console.print(f"    no text: {row.missing}")


def _describe_document(document: TracedDocument) -> str:
    record = document.record
    length = f" + {record.length:,}" if record.length else ""
    source = f" ({document.source})" if document.source else ""
    fields = "".join(f", {name}={value}" for name, value in record.fields.items())
    return (
        f"document {record.document}: {document.file}{source} at {document.place:,}{length}{fields}"
    )


def _describe_span(traced: TracedSpan) -> str:
    span = traced.span
    last = span.first_token + span.tokens - 1
    place = f"document {span.document}, tokens {span.first_token:,} to {last:,}"
    if traced.text is None:
        return place
    text = " ".join(traced.text.split())
    if len(text) > _SHOWN:
        text = f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"
    return f"{place}: {text}"


def print_documents(
    console: Console,
    documents: Sequence[TracedDocument],
    rows: Sequence[RowOrigin],
    total: int,
    readings: Mapping[RowOrigin, Sequence[Reading]],
    limit: int,
) -> None:
    """Print documents, and the rows that hold them.

    Args:
        console: the terminal.
        documents: the documents.
        rows: the rows that hold text of one of them, as far as they are printed.
        total: the number of all such rows.
        readings: when a run reads the rows; empty where that is not asked.
        limit: the most documents that are printed; 0 prints all.
    """
    limit = limit or len(documents)
    for document in documents[:limit]:
        console.print(_describe_document(document))
    if len(documents) > limit:
        console.print(f"... and {count_things(len(documents) - limit, 'more document')}")
    text = f"text of {count_things(len(documents), 'document')}"
    console.print(f"{count_things(total, 'row holds', 'rows hold')} {text}:")
    for row in rows:
        read = "".join(
            f"; epoch {one.epoch}, step {one.step:,}, rank {one.rank}"
            for one in readings.get(row, ())
        )
        console.print(f"  {row.split} row {row.row:,}: {row.shard}, row {row.shard_row:,}{read}")
    if total > len(rows):
        console.print(
            f"... and {count_things(total - len(rows), 'more row')} (--limit 0 prints all)"
        )
