"""Tokenized documents to examples."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.objective import Objective
from corpusmill.placement import assign_splits
from corpusmill.pool import ARRAYS, Pool, open_pool
from transforms.elements import NamedOutputs
from transforms.read import open_file
from transforms.tally import COUNTS, Count, Tally

EXAMPLES = "examples"


class _BuildBatch(beam.DoFn):
    """A batch of documents to one batch of examples for each repeat."""

    def __init__(
        self, objective: Objective, seed: int, validation_share: float, shared: Shared
    ) -> None:
        self._objective, self._seed, self._share, self._shared = (
            objective,
            seed,
            validation_share,
            shared,
        )

    def setup(self) -> None:
        self._tally = Tally("build", live=("examples",))

    def start_bundle(self) -> None:
        self._tally.start()

    def process(self, element: pa.RecordBatch, pool_path: str = "") -> Iterator[pa.RecordBatch]:
        pool = (
            self._shared.acquire(lambda: map_pool(pool_path), tag=pool_path) if pool_path else None
        )
        splits = assign_splits(self._seed, element.column("document").to_numpy(), self._share)
        self._tally.add("documents", element.num_rows)
        for repeat in range(self._objective.repeats):
            examples = self._objective.build(element, repeat, pool, splits, self._seed)
            self._tally.add("examples", examples.num_rows)
            yield examples

    def finish_bundle(self) -> Iterator[TaggedOutput]:
        yield from self._tally.finish()


def map_pool(path: str) -> Pool:
    """Map a pool; one that does not lie on this machine is copied here first."""
    if Path(path).is_dir():
        return open_pool(path)
    with TemporaryDirectory(prefix="corpusmill-pool-") as folder:
        for name in ARRAYS:
            with (
                open_file(FileSystems.join(path, f"{name}.npy")) as source,
                (Path(folder) / f"{name}.npy").open("wb") as target,
            ):
                shutil.copyfileobj(source, target, 2**20)
        # The mapping outlives the file's name.
        return open_pool(folder)


class BuildExamples(beam.PTransform):
    """Build an objective's examples; gives a tuple of the collections EXAMPLES and COUNTS.

    Args:
        objective: what to build.
        seed: the data set's seed.
        validation_share: expected share of documents in the validation split.
        pool: a collection of one path, the pool of random documents; None where none is drawn.
    """

    def __init__(
        self,
        objective: Objective,
        seed: int,
        validation_share: float,
        pool: beam.PCollection[str] | None,
    ) -> None:
        super().__init__()
        self._objective, self._seed, self._share, self._pool = (
            objective,
            seed,
            validation_share,
            pool,
        )

    def expand(self, documents: beam.PCollection[pa.RecordBatch]) -> NamedOutputs:
        """One DoFn in the stage of its input; the pool's path is its side input."""
        build = _BuildBatch(self._objective, self._seed, self._share, Shared())
        paths = [] if self._pool is None else [beam.pvalue.AsSingleton(self._pool)]
        typed = beam.ParDo(build, *paths).with_output_types(pa.RecordBatch, **{COUNTS: Count})
        return documents | "BuildBatch" >> typed.with_outputs(COUNTS, main=EXAMPLES)

    def display_data(self) -> dict[str, str | int | float]:
        """What is built; the seed as text, as Beam shows no integer above 2**63."""
        return {
            "objective": self._objective.name,
            "seed": str(self._seed),
            "validation_share": self._share,
        }
