"""What a run is made of that removes rows from a data set.

Such a run is not resumed. If it is stopped before readers see the new data set, the old one is as
it was; if it is stopped later, the next command that changes the data set first finishes the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.arrays.distinct import are_among
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError, option
from corpusmill.location import Location
from corpusmill.provenance.documents_table import Ids, documents_schema
from corpusmill.provenance.removal import list_removed, read_column
from corpusmill.provenance.search import search_tables
from corpusmill.provenance.store import OriginStore


@dataclass(frozen=True)
class Choice:
    """Documents of a data set that a user has chosen.

    Attributes:
        table: the documents, ascending by id, without kept fields.
        reason: how they were chosen, in SQL.
    """

    table: pa.Table
    reason: str

    @property
    def ids(self) -> Ids:
        """Their ids, uint64[n], ascending."""
        ids: Ids = self.table.column("document").to_numpy()
        return ids


class Source(NamedTuple):
    """A data set, and the documents in it that a user has chosen.

    Attributes:
        folder: its folder.
        manifest: its manifest.
        choice: the documents.
        value: what the user gave, for messages.
    """

    folder: Location
    manifest: Manifest
    choice: Choice
    value: str


def describe_choice(where: str | None, documents: Sequence[int]) -> str:
    """Return the options of a choice as a condition of SQL.

    Raises:
        UserError: not one of them is given, or an id is not valid.
    """
    if (where is None) == (not documents):
        cause = "it is not clear which documents are meant"
        raise UserError(f"{option('where')} {option('document')}", cause, "Give one of them")
    if invalid := [number for number in documents if not 0 <= number < 2**64]:
        raise UserError(option("document", invalid[0]), "no document has this id", "Give 0 or more")
    return where if where is not None else f"document IN ({', '.join(map(str, documents))})"


def choose_documents(
    folder: Location, manifest: Manifest, where: str | None, documents: Sequence[int]
) -> Choice:
    """Find the documents that a user has chosen.

    Args:
        folder: of the data set.
        manifest: of the data set, which has provenance.
        where: a condition of SQL; None to choose by ids.
        documents: the ids.

    Raises:
        UserError: the data set has no such document, or the condition is not valid.
    """
    reason, store = describe_choice(where, documents), OriginStore(folder, manifest)
    if where is None:
        tables = store.find_tables(np.unique(np.array(documents, np.uint64)))
    else:
        tables = search_tables(store, where)
    schema = documents_schema()
    found = [table.select(schema.names).cast(schema) for table in tables]
    table = pa.concat_tables([schema.empty_table(), *found]).sort_by("document")
    missing = np.setdiff1d(np.array(documents, np.uint64), table.column("document").to_numpy())
    # A command that is given again may name documents that are gone.
    names = list_removed(manifest) if len(missing) else ()
    for removed in read_column(folder, names, "document"):
        missing = np.setdiff1d(missing, removed)
    for number in missing.tolist():
        cause = "the data set holds no such document"
        raise UserError(option("document", number), cause, "Give an id of `corpusmill trace`")
    return Choice(table, reason)


def find_copies(folder: Location, manifest: Manifest, choice: Choice) -> Ids:
    """Return the documents with the text of a chosen one that are not chosen, uint64[n], ascending.

    Args:
        folder: of the data set.
        manifest: of the data set.
        choice: the chosen documents.

    Raises:
        UserError: a file of provenance is damaged.
    """
    store, known = (
        OriginStore(folder, manifest),
        np.unique(choice.table.column("digest").to_numpy()),
    )
    copies: list[Ids] = [np.zeros(0, np.uint64)]
    for split in manifest.splits:
        for table in store.tables(split, ["document", "digest"]):
            is_copy = are_among(table.column("digest").to_numpy(), known)
            copies.append(table.column("document").to_numpy()[is_copy])
    return np.setdiff1d(np.concatenate(copies), choice.ids)


def add_copies(folder: Location, manifest: Manifest, choice: Choice, copies: Ids) -> Choice:
    """Return a choice with the copies that `find_copies` found."""
    schema, store = documents_schema(), OriginStore(folder, manifest)
    found = [table.select(schema.names).cast(schema) for table in store.find_tables(copies)]
    table = pa.concat_tables([choice.table, *found]).sort_by("document")
    reason = f"digest IN (SELECT digest FROM documents WHERE {choice.reason})"  # noqa: S608
    return Choice(table, reason)


def check_editable(manifest: Manifest, value: str) -> None:
    """Refuse a data set whose rows cannot be told apart by their documents.

    Args:
        manifest: of the data set.
        value: what the user gave, for the message.

    Raises:
        UserError: it is refused.
    """
    cause = ""
    if manifest.provenance is None:
        cause = "it was built without provenance"
    elif not manifest.provenance.has_spans:
        cause = f"its objective {manifest.objective.name} does not tell whose tokens a row holds"
    elif manifest.output.shard_format.joined:
        cause = f"all shards of a split are one file in {manifest.output.format}"
    if cause:
        cause = f"rows cannot be chosen by their documents, as {cause}"
        raise UserError(value, cause, "Build it again, without the text that is to be removed")
