"""The table of a plan in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from corpusmill.console.terminal_report import count_things, print_figures, print_line
from corpusmill.inspection.corpus_figures import Figure
from pipeline.console.quantities import (
    format_duration,
    format_hours,
    format_number,
    format_size,
)

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
