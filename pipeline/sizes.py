"""Sizes as people write them: 5TB, 300GB, 1.5TiB."""

import re

from corpusmill.errors import UserError, option

_DECIMAL, _BINARY = 1000, 1024
_PREFIXES = "kMGTP"
_UNITS = {"B": 1, "": 1}
for _power, _prefix in enumerate(_PREFIXES, 1):
    _UNITS |= {f"{_prefix}B": _DECIMAL**_power, f"{_prefix}iB": _BINARY**_power}
    _UNITS[_prefix] = _DECIMAL**_power
_BY_NAME = {name.lower(): factor for name, factor in _UNITS.items()}
_SIZE = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*([a-z]*)", re.IGNORECASE)
_CURE = "Give a number and a unit, such as 300GB, 5TB or 1.5TiB"


def parse_size(name: str, size: int | str) -> int:
    """Parse a number of bytes.

    Args:
        name: of the option that has the value.
        size: a number of bytes; or a number and B, kB, MB, GB, TB or PB (powers of 1,000), or KiB
            to PiB (powers of 1,024), in any case.

    Raises:
        UserError: it is not a size, or less than one byte.

    Example:
        "1.5TiB" is 1,649,267,441,664, and "5TB" is 5,000,000,000,000.
    """
    text = str(size)
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UserError(option(name, text), "it is not a size", _CURE)
    number, unit = match[1].replace("_", "").replace(",", ""), match[2]
    if unit.lower() not in _BY_NAME:
        units = ", ".join(name for name in _UNITS if name.endswith("B"))
        raise UserError(option(name, text), f"{unit} is not one of the units {units}", _CURE)
    parsed = round(float(number) * _BY_NAME[unit.lower()])
    if parsed < 1:
        raise UserError(option(name, text), "it is less than one byte", _CURE)
    return parsed
