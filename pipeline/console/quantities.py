"""Sizes, durations and large numbers as a report writes them."""

_PREFIXES = "kMGTP"


def format_size(size: float) -> str:
    """Write a number of bytes with three digits: 999 B, 1.00 kB, 12.3 MB, 5.00 TB."""
    power = 0
    while size >= 999.5 and power < len(_PREFIXES):
        size, power = size / 1000, power + 1
    if not power:
        return f"{size:,.0f} B"
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:,.{digits}f} {_PREFIXES[power - 1]}B"


def format_duration(seconds: float) -> str:
    """Write a duration with two units at most: 0.4 s, 35 s, 12 min, 3 h 20 min, 12 d 4 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 60 * 48:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24:,} d {hours % 24} h"


def format_number(number: float) -> str:
    """Write a number: 12,345, and from a million on with three digits, 1.23 million."""
    for name, size in (("trillion", 1e12), ("billion", 1e9), ("million", 1e6)):
        if number >= size * 0.9995:
            value = number / size
            return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {name}"
    return f"{number:,.0f}"


def format_hours(hours: float) -> str:
    """Write a number of hours: 1,235, 285, 4.12, 0.0412, < 0.001."""
    if 0 < hours < 0.0005:
        return "< 0.001"
    return f"{hours:,.0f}" if hours >= 99.95 else f"{hours:.3g}"
