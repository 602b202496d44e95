"""What a schema of Avro may cost: a few bytes must not claim any number of values.

An item of an array may take no byte at all (null, a record without fields), so that its number is
all that a file holds of it. A type that contains itself may be nested as deep as a file has bytes,
which ends the process, as the decoder is compiled and calls itself.
"""

from collections.abc import Sequence
from typing import Any

# The values of an array or a map may be this many for each byte, and those of a row twice as many.
_VALUES_PER_BYTE = 64
_MAX_DEPTH = 64
_PRIMITIVE = ("boolean", "int", "long", "float", "double", "bytes", "string")


def check_schema(schema: Any) -> None:
    """Refuse a schema whose values take unbounded work or memory.

    Args:
        schema: parsed from JSON.

    Raises:
        ValueError: a type contains itself, types are nested too deep, or a row or an item of an
            array may hold many values that take no byte.

    Example:
        {"type": "array", "items": "null"} is refused, {"type": "array", "items": "int"} is not.
    """
    if _Surplus().of(schema, "", 0) > _VALUES_PER_BYTE:
        raise ValueError("a row of its schema may hold many values in no bytes")


def narrow_schema(
    schema: Any, text_field: str, keep_fields: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Return the schema by which one field and those that are kept are read, the others skipped.

    To skip takes no memory, but is slower than to read a few values.

    Args:
        schema: that the file was written with, checked.
        text_field: name of the field.
        keep_fields: names of the fields that are kept.

    Returns:
        A record of these fields alone; None if no other value can be large but texts, or if a field
        that is kept is nested. A row in which the text field holds neither text nor another single
        value is damaged where it is a record.
    """
    if not isinstance(schema, dict) or "fields" not in schema or not _holds_many(schema):
        return None
    fields = []
    for field in schema["fields"]:
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        plain = [kind for kind in kinds if _is_plain(kind)]
        if field["name"] in keep_fields and len(plain) < len(kinds):
            return None
        if plain and field["name"] in (text_field, *keep_fields):
            fields.append({"name": field["name"], "type": plain})
    names = {key: schema[key] for key in ("name", "namespace") if key in schema}
    return {"type": "record", **names, "fields": fields}


def _is_plain(kind: Any) -> bool:
    name = kind.get("type") if isinstance(kind, dict) else kind
    return name == "null" or name in _PRIMITIVE


def _holds_many(kind: Any) -> bool:
    """Return whether an array or a map is somewhere in a type."""
    match kind:
        case list():
            return any(map(_holds_many, kind))
        case {"type": "array" | "map"}:
            return True
        case {"fields": list(fields)}:
            return any(_holds_many(field["type"]) for field in fields)
        case {"type": nested}:
            return _holds_many(nested)
    return False


class _Surplus:
    """Finds how many values of a type may exceed `_VALUES_PER_BYTE` for each of its bytes.

    Where that is 0 or less, the values of any number of items are bounded by their bytes.
    """

    def __init__(self) -> None:
        # By full name; None while the type is being looked at.
        self._named: dict[str, int | None] = {}

    def of(self, kind: Any, namespace: str, depth: int) -> int:
        """Return the surplus of a type; `check_schema` names the errors."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"its schema is nested more than {_MAX_DEPTH} levels deep")
        match kind:
            case str():
                surplus = self._of_name(kind, namespace)
            case list():  # a byte says which of them follows
                branches = [self.of(branch, namespace, depth + 1) for branch in kind]
                surplus = max(branches, default=0) - _VALUES_PER_BYTE
            case {"type": "array", "items": items}:
                surplus = self._of_items(self.of(items, namespace, depth + 1))
            case {"type": "map", "values": items}:  # each has a key of at least a byte
                surplus = self._of_items(self.of(items, namespace, depth + 1) - _VALUES_PER_BYTE)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str(name)}:
                full = _full_name(name, kind.get("namespace", namespace))
                surplus = self._of_named(kind, full, depth)
            case {"type": nested}:
                surplus = self.of(nested, namespace, depth + 1)
            case _:
                raise ValueError(f"its schema holds {str(kind)[:80]}, which is not a type")
        return surplus

    def _of_name(self, name: str, namespace: str) -> int:
        if name == "null" or name in _PRIMITIVE:
            return 1 if name == "null" else 1 - _VALUES_PER_BYTE
        full = _full_name(name, namespace)
        if full not in self._named:
            raise ValueError(f"its schema has no type {name[:80]}")
        surplus = self._named[full]
        if surplus is None:
            raise ValueError(f"the type {name[:80]} of its schema contains itself")
        return surplus

    def _of_items(self, surplus: int) -> int:
        if surplus > 0:
            raise ValueError("an array or a map of its schema may hold many values in no bytes")
        return 1 - _VALUES_PER_BYTE

    def _of_named(self, kind: Any, name: str, depth: int) -> int:
        self._named[name] = None
        surplus = 1
        match kind:
            case {"type": "enum"}:
                surplus -= _VALUES_PER_BYTE
            case {"type": "fixed", "size": int(size)}:
                surplus -= _VALUES_PER_BYTE * size
            case {"fields": list(fields)}:
                namespace = name.rpartition(".")[0]
                surplus += sum(self.of(field["type"], namespace, depth + 1) for field in fields)
        self._named[name] = surplus
        return surplus


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
