"""Fields by their names: those inside another field are named with dots, as in data.text.

A field of exactly that name comes first, and then the one that the path leads to. A path leads
through objects and records, and not through lists, whose items have no names.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from corpusmill.corpus.batches import MAX_DETAIL, UnreadableError

# Returns the fields inside a value or a type, in their order; nothing where there are none.
Members = Callable[[Any], Iterable[tuple[str, Any]]]

MISSING = object()


def find_value(record: dict[str, Any], name: str) -> Any:
    """Return the value of a field of a record, or `MISSING` if it has no such field.

    Example:
        "a.b" gives 1 for {"a.b": 1, "a": {"b": 2}}, 2 for {"a": {"b": 2}}, None for {"a": None},
        and `MISSING` for {"a": [{"b": 3}]}.
    """
    if name in record:
        return record[name]
    for head, rest in _divide(name):
        inner = record.get(head, MISSING)
        found = find_value(inner, rest) if type(inner) is dict else MISSING
        if inner is None or found is not MISSING:
            return None if inner is None else found
    return MISSING


def _divide(name: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and after each dot."""
    for place, char in enumerate(name):
        if char == ".":
            yield name[:place], name[place + 1 :]


class Found(NamedTuple):
    """A field that a name leads to.

    Attributes:
        path: the names that lead to it, from the outside in.
        kind: its type.
    """

    path: tuple[str, ...]
    kind: Any


def find_field(whole: Any, name: str, members: Members) -> Found | None:
    """Return the field of a table that a name leads to, or None if there is none.

    Args:
        whole: the type of a row.
        name: of the field.
        members: returns the fields inside a type.

    Raises:
        UnreadableError: several fields have that name, so that none of them is meant for certain.
    """
    inside = [*members(whole)]
    for head, rest in ((name, None), *_divide(name)):
        kinds = [kind for other, kind in inside if other == head]
        if len(kinds) > 1:
            raise UnreadableError("doubled-field", f"it has {len(kinds)} fields named {head}")
        if kinds and rest is None:
            return Found((name,), kinds[0])
        if kinds and rest is not None and (found := find_field(kinds[0], rest, members)):
            return Found((head, *found.path), found.kind)
    return None


def name_fields(whole: Any, members: Members, levels: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield the name of each field and its type, followed by those of the fields inside it.

    Args:
        whole: a value, or the type of a row.
        members: returns the fields inside a value or a type.
        levels: how deep fields inside others are named.
    """
    for name, kind in members(whole):
        yield name, kind
        if levels > 1:
            for other, inner in name_fields(kind, members, levels - 1):
                yield f"{name}.{other}", inner


def list_names(names: Iterable[str]) -> str:
    """Return names, each once, as a message has them; very many are cut."""
    listed = dict[str, None]()
    for name in names:
        listed[name] = None
        if sum(map(len, listed)) > MAX_DETAIL:
            return f"{', '.join(listed)[:MAX_DETAIL]}..."
    return ", ".join(listed) or "none"
