"""From values by name to the dataclass that declares the options."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, get_type_hints, is_typeddict

from corpusmill.errors import UserError
from corpusmill.settings.options import groups_of, options_of

Options = TypeVar("Options")


def fill(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """Return options, of which some have values.

    Args:
        kind: the dataclass of the options. Its fields that are dataclasses or typed dictionaries
            are groups of further options.
        values: by the name of the option; or an instance of a whole group by the name of its field,
            whose own values are those of the instance where no others are given. The values of
            a `preset` are taken for what is not given.

    Raises:
        UserError: an option is missing, or a value is not valid.
    """
    whole = {
        one.name
        for name, group in groups_of(kind).items()
        if _whole(group, values.get(name)) is not None
        for one in options_of(group)
    }
    missing = [
        one.mention()
        for one in options_of(kind)
        if one.is_required and one.name not in whole | values.keys()
    ]
    if missing:
        are, them = ("it is", "it") if len(missing) == 1 else ("they are", "them")
        raise UserError(", ".join(missing), f"{are} missing", f"Give {them}")
    filled: Options = _fill(kind, values)
    return filled


def _fill(kind: Any, values: Mapping[str, Any]) -> Any:
    if is_typeddict(kind):
        return {name: values[name] for name in get_type_hints(kind) if name in values}
    given = {field.name: values[field.name] for field in fields(kind) if field.name in values}
    for name, group in groups_of(kind).items():
        given[name] = _fill_group(group, _whole(group, given.get(name)), values)
    preset = values.get("preset")
    return (
        kind.from_preset(preset, **given) if preset and hasattr(kind, "presets") else kind(**given)
    )


def _whole(kind: Any, value: Any) -> Any:
    """Return the instance of a whole group; None for the value of an option of the same name."""
    return value if isinstance(value, dict if is_typeddict(kind) else kind) else None


def _fill_group(kind: Any, whole: Any, values: Mapping[str, Any]) -> Any:
    if whole is None:
        return _fill(kind, values)
    if is_typeddict(kind):
        return {**whole, **_fill(kind, values)}
    return replace(
        whole, **{one.name: values[one.name] for one in fields(kind) if one.name in values}
    )
