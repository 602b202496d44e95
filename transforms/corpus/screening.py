"""The steps in which the documents of a task are dropped before they are compared with known ones.

Both readings of a task, the one that lists its digests and the one that tokenizes it, take them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from apache_beam.utils.shared import Shared

from corpusmill.corpus.filters.dropping import Step
from corpusmill.corpus.filters.functions import load_filters
from corpusmill.corpus.filters.options import FilterOptions
from transforms.corpus.duplicates import StoredPassages, load_repeats
from transforms.elements import Task


@dataclass(frozen=True)
class Screening:
    """Which documents are left out.

    Attributes:
        filters: the options.
        passages: the passages that they must not overlap with; None for none.
    """

    filters: FilterOptions = field(default_factory=FilterOptions)
    passages: StoredPassages | None = None

    def list_steps(self, task: Task, shared: Shared) -> Iterator[Step]:
        """Yield the steps of a task, in their order.

        Args:
            task: the task.
            shared: keeps the passages, once for each process.
        """
        yield from load_filters(self.filters.filter)
        if self.filters.drop_duplicates:
            yield load_repeats(task.repeats)
        if passages := self.passages:
            yield shared.acquire(passages.load, tag=passages.path)
