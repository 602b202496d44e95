"""The report of a plan in the terminal, at most 100 columns wide."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from corpusmill.errors import printable
from pipeline.console.quantities import (
    format_dollars,
    format_duration,
    format_hours,
    format_number,
    format_size,
)

_WIDTH = 100
_NAME, _VALUE = 24, 14

_Numbers = Mapping[str, Any]


def print_plan(console: Console, numbers: _Numbers) -> None:
    """Print a plan.

    Args:
        console: the terminal.
        numbers: as `pipeline.planning.numbers` lists them.
    """
    corpus = numbers["corpus"]
    _print_head(
        console, f"{numbers['objective']['name']} examples of {format_size(corpus['bytes'])}"
    )
    _print_text(
        console,
        "corpus",
        f"{_count(corpus['files'], 'file')} of {format_size(corpus['file_bytes'])}",
    )
    _print_text(console, "runs on", f"{numbers['runner']}, {_count(numbers['workers'], 'worker')}")
    _print_text(console, "measured", _describe_sample(numbers["sample"]))
    sections = (
        ("what is made", _made(numbers)),
        ("what it takes", _taken(numbers)),
        ("what it costs, at the prices below", _costs(numbers)),
    )
    for title, rows in sections:
        console.print()
        _print_head(console, title)
        for name, value, meaning in rows:
            _print_row(console, name, value, meaning)
    console.print()
    _print_steps(console, numbers)
    console.print()
    _print_limits(console, numbers["limits"])
    console.print()
    _print_problems(console, numbers["problems"])
    console.print()
    _print_assumptions(console, numbers["assumptions"])


def _print_head(console: Console, title: str) -> None:
    console.print(Text(title, style="bold"))


def _print_text(console: Console, name: str, text: str) -> None:
    indent = " " * 12
    lines = textwrap.wrap(printable(text), _WIDTH - len(indent), break_on_hyphens=False)
    console.print(Text.assemble((f"  {name:<10}", "bold"), f"\n{indent}".join(lines)))


def _print_row(console: Console, name: str, value: str, meaning: str) -> None:
    console.print(
        Text.assemble(
            (f"  {name:<{_NAME}}", "bold"), (f"{value:>{_VALUE}}", "cyan"), f"  {meaning}"
        )
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _describe_sample(sample: _Numbers) -> str:
    text = f"on {format_size(sample['bytes'])} of {sample['text']}, by the job's own stages"
    text += f", in {format_duration(sample['seconds'])}"
    if sample["warming_seconds"] > sample["seconds"] / 2:
        warming = format_duration(sample["warming_seconds"])
        text += f" ({warming} of it to load or compile kernels, which is not counted)"
    if not sample["is_of_the_corpus"]:
        text += ". Give a part of the corpus as --input for rates that hold for it"
    return text


def _made(numbers: _Numbers) -> Iterator[tuple[str, str, str]]:
    counts, sizes = numbers["counts"], numbers["bytes"]
    yield "documents", format_number(counts["documents"]), ""
    yield "tokens", format_number(counts["tokens"]), "of the documents, once"
    repeats = numbers["objective"]["repeats"]
    times = f", each document {repeats} times" if repeats > 1 else ""
    yield (
        "rows",
        format_number(counts["rows"]),
        f"of {format_number(counts['row_tokens'])} tokens{times}",
    )
    each = f"each of {format_size(sizes['shard'])} (exact)"
    if counts["shard_files"] != counts["shards"]:
        each += f", in {counts['shard_files']:,} files"
    yield "shards", f"{counts['shards']:,}", each
    yield "final bytes", format_size(sizes["output"]), "of all shards"
    yield "manifest", format_size(sizes["manifest"]), ""


def _taken(numbers: _Numbers) -> Iterator[tuple[str, str, str]]:
    counts, sizes, requests = numbers["counts"], numbers["bytes"], numbers["requests"]
    yield "tasks", f"{counts['tasks']:,}", f"that read {counts['ranges']:,} parts of files (exact)"
    if counts["merges"]:
        yield "merges", f"{counts['merges']:,}", f"each of {format_size(sizes['merge'])} (exact)"
    most = f"with the shards, before these are published, {format_size(sizes['most_at_once'])}"
    yield "temporary bytes", format_size(sizes["temporary"]), most
    yield (
        "vCPU hours",
        format_hours(numbers["worker_hours"]),
        "of work, requests that are waited for included",
    )
    least = format_duration(numbers["shortest_duration_seconds"])
    duration = format_duration(numbers["duration_seconds"])
    yield (
        "duration",
        duration,
        f"with {_count(numbers['workers'], 'worker')}; {least} with any number",
    )
    yield "memory of a worker", format_size(sizes["worker_memory"]), "at most"
    yield "disk of a worker", format_size(sizes["worker_disk"]), "for sorting and the pool, at most"
    shuffled = f"{format_number(counts['shuffled_elements'])} references go through the engine"
    yield "shuffled", format_size(sizes["shuffled"]), shuffled
    reads, writes = format_number(requests["reads"]), format_number(requests["writes"])
    yield "requests that read", reads, "if all files are in an object store"
    yield "requests that write", writes, "likewise; with copies and lists"


def _costs(numbers: _Numbers) -> Iterator[tuple[str, str, str]]:
    dollars = numbers["dollars"]
    hours = f"{format_hours(numbers['billed_hours'])} hours of workers, from the start to the end"
    meanings = {
        "processors": hours,
        "temporary files": "while the job runs",
        "deleted files": "which soft delete keeps; it should be off",
    }
    for name, amount in dollars.items():
        if amount and name != "total":
            yield name, format_dollars(amount), meanings.get(name, "")
    yield "total", format_dollars(dollars["total"]), ""
    month = numbers["storage_dollars_a_month"]
    yield "the data set", format_dollars(month), "a month in the object store, from then on"


def _print_steps(console: Console, numbers: _Numbers) -> None:
    heads = ("step", "units", "vCPU hours", "longest unit", _count(numbers["workers"], "worker"))
    console.print(Text(_columns(*heads), style="bold"))
    for step in numbers["steps"]:
        hours = step["processor_hours"] + step["wait_hours"]
        longest, seconds = map(format_duration, (step["longest_seconds"], step["seconds"]))
        console.print(
            _columns(step["name"], f"{step['units']:,}", format_hours(hours), longest, seconds)
        )
    longest = max(step["longest_seconds"] for step in numbers["steps"])
    text = f"  The longest work of one worker is in the step '{numbers['bottleneck']}': "
    console.print(f"{text}{format_duration(longest)}.")


def _columns(name: str, units: str, hours: str, longest: str, seconds: str) -> str:
    return f"  {name:<{_NAME}}{units:>{_VALUE}}{hours:>14}{longest:>16}{seconds:>18}"


def _print_limits(console: Console, limits: list[_Numbers]) -> None:
    _print_head(console, "limits")
    for limit in limits:
        write = format_size if limit["is_size"] else format_number
        value, most = write(limit["value"]), write(limit["most"])
        style = "bold red" if limit["value"] > limit["most"] else "cyan"
        line = (f"  {limit['name']:<{_NAME}}", "bold"), (f"{value:>{_VALUE}}", style)
        console.print(Text.assemble(*line, f"  of {most}"))


def _print_problems(console: Console, problems: list[_Numbers]) -> None:
    if not problems:
        console.print(Text("nothing would break", style="bold"))
        return
    for problem in problems:
        name, style = ("breaks", "bold red") if problem["is_fatal"] else ("note", "bold yellow")
        lines = textwrap.wrap(
            f"{problem['what']}. {problem['cure']}.", _WIDTH - 8, break_on_hyphens=False
        )
        console.print(
            Text.assemble((f"{name:<8}", style), f"\n{' ' * 8}".join(map(printable, lines)))
        )


def _print_assumptions(console: Console, values: _Numbers) -> None:
    _print_head(console, "what is assumed: each is an option, and none is certain")
    machine = (
        "{machine_type} with {vcpus_per_machine} vCPUs, each with {memory_per_vcpu} GB of memory "
        "and {disk_per_vcpu} GB of disk, and {vcpu_speed} times as fast as a core of this machine"
    )
    prices = (
        "list prices in {region} of {prices_of}, in dollars: an hour of a vCPU {vcpu_price}, of a "
        "GB of memory {memory_price}, of a GB of disk {disk_price}; a GB through Dataflow's "
        "shuffle service {shuffle_price}; 10,000 requests that write {write_price}, that read "
        "{read_price}; a GB stored for a month {storage_price}, also for {soft_delete_days} days "
        "after it was deleted"
    )
    times = (
        "workers of a cluster or service start in {start_seconds} s; a small read from an object "
        "store takes {request_seconds} s, and an element of the engine {element_seconds} s"
    )
    shown = {name: _write_plainly(value) for name, value in values.items()}
    for name, text in (("machine", machine), ("prices", prices), ("times", times)):
        _print_text(console, name, text.format(**shown))


def _write_plainly(value: Any) -> str:
    """Write a number without an exponent, as 0.000054 and 4; and a text as it is."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
