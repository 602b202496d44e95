"""Which documents of a data set may be random ones in the rows of text that is added to it.

The pool (`corpusmill.objectives.random_documents`) takes documents by their priorities until its
budget of tokens is spent. The tables of documents tell the ids and tokens of all documents that the
data set has, so that those that can enter the pool are known before any text is read.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.objectives.random_documents import priorities
from corpusmill.provenance.documents import documents_schema

# So many documents wait until those are left out that cannot enter the pool.
_MOST_WAITING = 2**20


class Choice(NamedTuple):
    """Documents that may enter a pool.

    Attributes:
        documents: columns of `corpusmill.provenance.documents.documents_schema`, ascending by id.
        limit: no document of a larger priority can enter the pool.
    """

    documents: pa.Table
    limit: int


def choose_candidates(
    tables: Iterable[pa.Table], seed: int, pool_tokens: int, most_waiting: int = _MOST_WAITING
) -> Choice:
    """Choose the documents that may enter a pool, whatever other documents there are.

    They are those of the lowest priorities that fit the budget. The first that does not gives the
    limit: it ends the pool, also where a shorter one after it would fit.

    Args:
        tables: the documents of a data set, as `documents_schema` has them, in any order; their
            ids are those that they have in the data set.
        seed: the data set's seed.
        pool_tokens: the budget.
        most_waiting: how many documents are held beside those that may enter the pool.

    Example:
        Of documents with the priorities [5, 1, 3, 9] and the tokens [40, 50, 30, 10], a budget of
        100 fits those of 1 and 3, and the limit is 5.
    """
    schema = documents_schema()
    limit, chosen = 2**64 - 1, schema.empty_table()
    waiting, number = [chosen], 0
    for table in tables:
        table = table.select(schema.names).cast(schema)  # noqa: PLW2901  a part of it
        is_low = priorities(seed, table.column("document").to_numpy()) <= np.uint64(limit)
        waiting.append(table.filter(pa.array(is_low)))
        number += waiting[-1].num_rows
        if number >= most_waiting:
            chosen, limit = _cut(pa.concat_tables(waiting), seed, pool_tokens, limit)
            waiting, number = [chosen], 0
    chosen, limit = _cut(pa.concat_tables(waiting), seed, pool_tokens, limit)
    return Choice(chosen.sort_by("document"), limit)


def _cut(documents: pa.Table, seed: int, pool_tokens: int, limit: int) -> Choice:
    """Leave out documents that cannot enter the pool."""
    ids = documents.column("document").to_numpy()
    order = np.lexsort((ids, priorities(seed, ids)))
    tokens = documents.column("tokens").to_numpy().astype(np.int64)
    fitting = int(np.searchsorted(np.cumsum(tokens[order]), pool_tokens, side="right"))
    if fitting < len(order):
        limit = int(priorities(seed, ids[order[fitting : fitting + 1]])[0])
    return Choice(documents.take(pa.array(order[:fitting])), limit)
