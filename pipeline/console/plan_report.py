"""The table of a plan in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from corpusmill.console.terminal_report import print_figures, print_line
from corpusmill.errors import count_things
from corpusmill.inspection.figures import Figure

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


_Numbers = Mapping[str, Any]
_FORMATS = {"bytes": format_size, "seconds": format_duration, "": format_number}


def print_plan(console: Console, numbers: _Numbers) -> None:
    """Print a plan.

    Args:
        console: the terminal.
        numbers: as `pipeline.planning.planned_build` lists them.
    """
    corpus, name = numbers["corpus"], numbers["objective"]["name"]
    head = f"{name} examples of {format_size(corpus['bytes'])}"
    print_line(console, Text(head, style="bold"), f", {count_things(corpus['files'], 'file')}")
    print_figures(console, tuple(_list_figures(numbers)))
    console.print()
    print_line(console, Text("stages", style="bold"))
    print_figures(console, tuple(map(_show_stage, numbers["stages"])))
    console.print()
    print_line(console, Text("bounds", style="bold"))
    print_figures(console, tuple(map(_show_bound, numbers["bounds"])))
    console.print()
    exceeded = [bound for bound in numbers["bounds"] if bound["is_exceeded"]]
    for bound in exceeded:
        figure, is_fatal = _show_bound(bound), bound["is_fatal"]
        mark = Text("breaks" if is_fatal else "note", "bold red" if is_fatal else "bold yellow")
        what = f"{figure.name}: {figure.text}, and the bound is {figure.meaning[3:]}"
        print_line(console, mark, f"  {what}. {bound['cure']}.")
    if not exceeded:
        print_line(console, "No bound is exceeded.")


def _show_stage(stage: _Numbers) -> Figure:
    """Show how often a stage is called, and what its largest call takes."""
    size, held = format_size(stage["bytes"]), format_size(stage["memory_bytes"])
    opened = count_things(stage["files"], "file")
    text = f"calls; the largest reads and writes {size}, opens {opened}, holds {held}"
    if stage["references"]:
        given, carried = stage["references"], format_size(stage["shuffled_bytes"])
        text += f", is given {count_things(given, 'reference')} of {carried} in all"
    return Figure(stage["name"], stage["calls"], f"{stage['calls']:,}", text)


def _show_bound(bound: _Numbers) -> Figure:
    write = _FORMATS[bound["unit"]]
    return Figure(
        bound["name"], bound["value"], write(bound["value"]), f"of {write(bound['most'])}"
    )


def _list_figures(numbers: _Numbers) -> Iterator[Figure]:
    counts, sizes, sample = numbers["counts"], numbers["bytes"], numbers["sample"]
    tasks, shards, rows = counts["tasks"], counts["shards"], counts["rows"]
    text = f"of {sample['text']}"
    if not sample["is_of_the_corpus"]:
        text += "; give some of the corpus as --input"
    yield Figure("sample", sample["bytes"], format_size(sample["bytes"]), text)
    parts = f"of {count_things(counts['ranges'], 'part')} of files (exact)"
    yield Figure("tasks", tasks, f"{tasks:,}", parts)
    for name in ("documents", "tokens"):
        yield Figure(name, counts[name], format_number(counts[name]), "of the corpus")
    built = f"{format_number(counts['row_tokens'])} tokens"
    repeats = numbers["objective"]["repeats"]
    times = f", each document {repeats} times" if repeats > 1 else ""
    yield Figure("examples", rows, format_number(rows), f"of {built}{times}")
    files = f"{count_things(counts['shard_files'], 'file')} (exact)"
    each = format_size(sizes["output"] / shards)
    yield Figure("shards", shards, f"{shards:,}", f"of about {each} each, in {files}")
    output, temporary = sizes["output"], sizes["temporary"]
    yield Figure("bytes", output, format_size(output), "of all shards")
    most = f"and {format_size(sizes['most_at_once'])} at once with the shards"
    yield Figure("temporary bytes", temporary, format_size(temporary), most)
    seconds, duration = numbers["processor_seconds"], numbers["seconds"]
    total, prepare, build = (
        format_hours(part / 3600)
        for part in (sum(seconds.values()), seconds["prepare"], seconds["build"])
    )
    work = f"{prepare} to read, tokenize and shuffle, {build} to build and write"
    yield Figure("processor hours", sum(seconds.values()), total, work)
    workers = f"with {count_things(numbers['workers'], 'worker')} as fast as this machine's"
    yield Figure("duration", duration, format_duration(duration), workers)
