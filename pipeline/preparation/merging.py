"""Data sets that are joined to one: what they must have in common, and what they hold twice."""

from collections.abc import Sequence

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.provenance.digests import find_shared
from corpusmill.provenance.documents import Ids
from corpusmill.provenance.store import OriginStore
from pipeline.preparation.appending import compare, why_alone

# A data set, as the user named it, and what it is.
Opened = tuple[str, Folder, Manifest]


def check_mergeable(opened: Sequence[Opened]) -> None:
    """Refuse data sets that cannot be joined.

    Raises:
        UserError: if there are fewer than two, or they differ in what an option decides.
    """
    if len(opened) < 2:
        cause = f"{len(opened)} data set{'s' * (not opened)} given, and two or more are joined"
        raise UserError("merge", cause, "Give two data sets or more")
    _, _, first = opened[0]
    for name, _, manifest in opened:
        if cause := why_alone(manifest):
            raise UserError(name, f"it cannot be joined with another one, as {cause}", _CURE)
        if bool(manifest.corpus.sources) != bool(first.corpus.sources):
            number = "" if manifest.corpus.sources else "no "
            cause = f"it has {number}sources with names, unlike {opened[0][0]}"
            raise UserError(name, cause, _CURE)
        if changes := compare(first, manifest):
            raise UserError(
                name, f"it was built with other options than {opened[0][0]}: {changes}", _CURE
            )


_CURE = "Read them together with `corpusmill.mix`, or build one data set of all text"


def find_known(opened: Sequence[Opened]) -> list[Ids]:
    """Find the documents of each data set whose text an earlier one holds, or held.

    Returns:
        uint64[n] for each data set, ids in ascending order.

    Raises:
        UserError: a file of provenance is damaged.
    """
    data_sets = [(folder, manifest) for _, folder, manifest in opened]
    return [
        find_shared(OriginStore(*data_set), data_sets[:number])
        for number, data_set in enumerate(data_sets)
    ]


def refuse_known(opened: Sequence[Opened], found: Sequence[Ids]) -> None:
    """Refuse data sets that hold the same text.

    Args:
        opened: the data sets.
        found: what `find_known` has found.

    Raises:
        UserError: they do.
    """
    for (name, _, _), documents in zip(opened, found, strict=True):
        if len(documents):
            cause = f"the text of {len(documents):,} of its documents is in an earlier data set"
            cure = "Leave them out with --existing skip, or keep them with --existing allow"
            raise UserError(name, cause, cure)
