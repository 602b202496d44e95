"""Options as the flags that set them."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any


def list_flags(options: type[Any], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that differ from their defaults, as on the command line.

    Args:
        options: the dataclass of the options.
        values: by name; what is missing has its default.
    """
    for option in fields(options):
        value = values.get(option.name, option.default)
        flag = option.name.replace("_", "-")
        if value == option.default or (isinstance(value, list | tuple) and not value):
            continue
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif isinstance(value, list | tuple):
            yield from (f"--{flag}", *map(str, value))
        else:
            yield from (f"--{flag}", str(value))
