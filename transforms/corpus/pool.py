"""The pool of random documents, and its candidates, which each task writes for itself.

    candidates ─ joined, in a tree ─► write pool ─► its path

In a large corpus a task has few candidates or none, and there are many tasks.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from corpusmill.knobs import knob
from corpusmill.layout.placement import TRAIN, VALIDATION, assign_splits
from corpusmill.layout.sorting import join_small
from corpusmill.objectives import random_documents as pools
from corpusmill.objectives.random_documents import ARRAYS, Pool, open_pool
from corpusmill.tokenization.encoding import tokenized_schema
from transforms.coders import NamedOutputs
from transforms.elements import Part, Segment
from transforms.recovery import Journal, Output, Workplace
from transforms.shuffle.segments import number_segments
from transforms.shuffle.spill import JOINED_BYTES, load_segment, write_segments
from transforms.shuffle.trees import JoinInTree, Tree
from transforms.storage.checksums import (
    ChecksumWriter,
    are_intact,
    explain_damage,
    seal,
    unseal,
)
from transforms.storage.file_systems import join_path
from transforms.storage.files import (
    make_folder,
    map_ahead,
    new_path,
    open_file,
    read_file,
    write_file,
)
from transforms.tally import COUNTS, Count

CANDIDATES = "candidates"

CANDIDATE_BYTES = knob("candidate_bytes", 2**20, test=500)
"""The candidates for the pool that a task writes at once; in a large corpus it has fewer."""


def join_candidates(
    number: int, candidates: Sequence[Segment], place: Workplace, schema: pa.Schema
) -> Iterator[Segment]:
    """Join the candidates of neighboring tasks to batches of some megabytes, in a new file.

    Args:
        number: number of the unit of work.
        candidates: references to them.
        place: where the run works.
        schema: of the documents.
    """
    ordered = sorted(candidates, key=attrgetter("place"))
    load = partial(load_segment, schema=schema)
    joined = join_small(map_ahead(load, ordered), JOINED_BYTES)
    written = write_segments(((number, rows) for rows in joined), place.temp_folder)
    yield from number_segments(written, ordered[0].place)


def gather_all(
    candidates: beam.PCollection[Segment], units: int, schema: pa.Schema, place: Workplace
) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
    """Gather segments for one unit of work, which are joined until their references are few.

    Args:
        candidates: the segments; there may be none.
        units: the number of units of work that have written them, each its number as the bucket.
        schema: of their rows.
        place: where the run works.
    """
    tree = Tree(units, partial(join_candidates, schema=schema), Segment, place)
    if tree.has_levels:
        candidates |= "JoinInTree" >> JoinInTree(tree)
    # What is made of nothing is needed, too.
    nothing = candidates.pipeline | "CreateNoCandidates" >> beam.Create(
        [Segment(0, 0, "", 0, 0, 0)]
    ).with_output_types(Segment)
    return (
        (candidates, nothing)
        | "JoinCandidates" >> beam.Flatten()
        | "KeyCandidates"
        >> beam.Map(lambda reference: (0, reference)).with_output_types(tuple[int, Segment])
        | "GatherCandidates" >> beam.GroupByKey()
    )


POOL = "pool"


@dataclass(frozen=True)
class PoolOptions:
    """How the pool is drawn.

    Attributes:
        seed: seed of the data set.
        tokens: largest number of tokens in the pool.
        validation_share: expected share of documents in the validation split.
        token_dtype: NumPy name of the type of a token id.
        place: where the run works.
        tasks: number of tasks, each of which may have candidates.
    """

    seed: int
    tokens: int
    validation_share: float
    token_dtype: str
    place: Workplace
    tasks: int = 1

    @property
    def schema(self) -> pa.Schema:
        """The columns of candidates, which have no facts."""
        return tokenized_schema(self.token_dtype)


class PoolDoFn(beam.DoFn):
    """Draw one pool from all candidates."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[str]:
        """Draw the pool from (key, candidates), unless the journal says that it is finished."""
        place = self._options.place
        outputs, _ = Journal(place).once(POOL, lambda: self._write(element[1]), _is_intact)
        # The side input needs a path, even one that nobody opens because the run is over.
        for tag, value in outputs or [("", place.temp_folder)]:
            yield TaggedOutput(tag, value) if tag else value

    def _write(self, references: Iterable[Segment]) -> Iterator[Output]:
        path = new_path(self._options.place.temp_folder, "pool")
        make_folder(path)
        full = (reference for reference in references if reference.path)
        candidates = sorted(full, key=attrgetter("place"))
        shape, limit, number = self._measure(candidates)
        splits = (TRAIN, VALIDATION) if self._options.validation_share else (TRAIN,)
        batches = (
            chosen
            for split in splits
            for batch in self._load(candidates)
            if (chosen := self._choose(batch, limit, split)).num_rows
        )
        files = [ChecksumWriter(file) for file in files_of_pool(path)]
        pools.write_pool(batches, shape, cast(list[BinaryIO], files))
        write_checksums(path, [file.part for file in files])
        yield "", path
        yield COUNTS, ("pool.candidates", number)
        yield COUNTS, ("pool.documents", shape.documents)
        yield COUNTS, ("pool.tokens", shape.tokens)

    def _load(self, candidates: Sequence[Segment]) -> Iterator[pa.RecordBatch]:
        return map_ahead(partial(load_segment, schema=self._options.schema), candidates)

    def _measure(self, candidates: Sequence[Segment]) -> tuple[pools.PoolShape, int, int]:
        """Return the pool's shape, its largest priority and the number of candidates."""
        options = self._options
        sizes = map(pools.measure_documents, self._load(candidates))
        ids, sentences, tokens = np.concatenate([np.empty((0, 3), np.uint64), *sizes]).T
        priorities = pools.priorities(options.seed, ids)
        limit = pools.choose(priorities, ids, tokens, options.tokens)
        is_drawn = priorities <= np.uint64(limit) if limit >= 0 else np.zeros(len(ids), np.bool_)
        train = assign_splits(options.seed, ids[is_drawn], options.validation_share) == TRAIN
        shape = pools.PoolShape(
            int(is_drawn.sum()),
            int(sentences[is_drawn].sum()),
            int(tokens[is_drawn].sum()),
            int(train.sum()),
            np.dtype(options.token_dtype),
        )
        return shape, limit, len(ids)

    def _choose(self, batch: pa.RecordBatch, limit: int, split: int) -> pa.RecordBatch:
        """Return the documents of a batch that are in the pool's part of a split."""
        seed, share = self._options.seed, self._options.validation_share
        ids = batch.column("document").to_numpy()
        is_drawn = pools.priorities(seed, ids) <= np.uint64(max(limit, 0))
        is_drawn &= (assign_splits(seed, ids, share) == split) & (limit >= 0)
        return batch if is_drawn.all() else batch.filter(pa.array(is_drawn))


def files_of_pool(path: str) -> list[str]:
    """Return the files of a pool, in the order of its `ARRAYS`."""
    return [join_path(path, f"{name}.npy") for name in ARRAYS]


def write_checksums(path: str, parts: Iterable[Part]) -> None:
    """Write the checksums of a pool's files beside them.

    Args:
        path: folder of the pool.
        parts: its files, in the order of `ARRAYS`.
    """
    checksums = json.dumps([(part.length, part.checksum) for part in parts])
    write_file(_checksums_path(path), seal(checksums.encode()))


def _checksums_path(path: str) -> str:
    return join_path(path, "checksums.json")


def _list_parts(path: str) -> list[Part]:
    """List the files of a pool, with their checksums."""
    checksums = _checksums_path(path)
    content = json.loads(unseal(read_file(checksums), checksums))
    return [
        Part(file, 0, length, checksum)
        for file, (length, checksum) in zip(files_of_pool(path), content, strict=True)
    ]


def _is_intact(outputs: Iterable[Output]) -> bool:
    return all(are_intact(_list_parts(path)) for tag, path in outputs if not tag)


def map_pool(path: str) -> Pool:
    """Map a pool into memory; a pool elsewhere is first copied to this machine.

    Raises:
        UserError: its files are damaged.
    """
    parts = _list_parts(path)
    if Path(path).is_dir():
        return _map_intact(path, path, parts)
    with TemporaryDirectory(prefix="corpusmill-pool-") as folder:
        copies = [part._replace(path=str(Path(folder, Path(part.path).name))) for part in parts]
        for part, copy in zip(parts, copies, strict=True):
            with open_file(part.path) as source, Path(copy.path).open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)
        # The mapping outlives the file's name.
        return _map_intact(path, folder, copies)


def _map_intact(path: str, folder: str, parts: list[Part]) -> Pool:
    if not are_intact(parts):
        raise explain_damage(path)
    return open_pool(folder)


class WritePool(beam.PTransform):
    """Draw the pool from its candidates.

    Returns the collections POOL (one path) and COUNTS.

    Args:
        options: how the pool is drawn.
    """

    def __init__(self, options: PoolOptions) -> None:
        super().__init__()
        self._options = options

    def expand(self, candidates: beam.PCollection[Segment]) -> NamedOutputs:
        """Join candidates until their references are few, and write one pool."""
        options = self._options
        write = beam.ParDo(PoolDoFn(options)).with_output_types(str, **{COUNTS: Count})
        gathered = gather_all(candidates, options.tasks, options.schema, options.place)
        return gathered | "WritePool" >> write.with_outputs(COUNTS, main=POOL)

    def display_data(self) -> dict[str, str | int]:
        """Show the budget, and the seed as text: Beam shows no integer above 2**63."""
        return {"pool_tokens": self._options.tokens, "seed": str(self._options.seed)}
