"""What of a planned job would break, or be one worker's for long: each with its cause and cure."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.console.quantities import format_duration, format_size
from pipeline.options import MAX_SHARDS
from pipeline.planning.costs import count_requests
from pipeline.planning.limits import Limit, Setting, list_limits
from pipeline.planning.schedule import Step
from pipeline.planning.workload import Workload
from pipeline.runners.engine import Reach
from pipeline.runners.local.workers import most_workers
from pipeline.runners.proto_checks import WHOLE
from transforms.shuffle import SMALLEST_SEGMENT_BYTES

_GB = 10**9
# No step of a large job should be one worker's for longer.
_MOST_SECONDS = 120
# What a bucket of Cloud Storage takes at once; it grows with the load, doubling in 20 minutes.
_READS_A_SECOND, _WRITES_A_SECOND = 5000, 1000
# From this number of reads on, the size of one matters.
_MANY = 10**8


@dataclass(frozen=True)
class Problem:
    """Something that would break, or take long.

    Attributes:
        what: what it is, as a sentence without its end.
        cure: what to do; likewise.
        is_fatal: whether the job would fail.
    """

    what: str
    cure: str
    is_fatal: bool = False

    def __str__(self) -> str:
        return f"{self.what}. {self.cure}."


def find_problems(setting: Setting) -> list[Problem]:
    """Find what would break, or take long; what would break comes first."""
    problems = [
        *(_explain(limit) for limit in list_limits(setting) if limit.is_exceeded),
        *(() if setting.is_local else _find_in_graph(setting)),
        *_find_idle_workers(setting),
        *_find_in_steps(setting),
        *_find_slow_shuffle(setting.work),
        *(_find_many_requests(setting) if setting.in_store else ()),
    ]
    return sorted(problems, key=lambda problem: not problem.is_fatal)


def _explain(limit: Limit) -> Problem:
    value, most = (
        format_size(number) if limit.is_size else f"{number:,.0f}"
        for number in (limit.value, limit.most)
    )
    return Problem(f"{limit.name}: {value}, and the limit is {most}", limit.cure, limit.is_fatal)


def _find_in_graph(setting: Setting) -> Iterator[Problem]:
    for fault in setting.faults:
        if fault.place != WHOLE:  # its size is one of the limits
            what = f"{setting.engine.name} would refuse the job: {fault.place}: {fault.what}"
            yield Problem(what, "Give fewer --num-shards or sources, or --runner local", True)


def _find_idle_workers(setting: Setting) -> Iterator[Problem]:
    work, layout, workers = setting.work, setting.work.job.layout, setting.schedule.workers
    tasks = work.job.plan.tasks
    if tasks < workers:
        what = f"the input makes {tasks:,} tasks, so that {workers - tasks:,} workers have none"
        yield Problem(what, f"Give --workers {tasks}, a smaller --range-bytes, or smaller files")
    if layout.shards < workers:
        what = f"{workers:,} workers share {layout.shards:,} shards, and a shard is one worker's"
        yield Problem(what, f"Give --num-shards {workers}, or fewer --workers")
    if setting.engine.reach is Reach.HERE and workers > (most := most_workers()):
        what = f"this machine can hold {most} workers, by its cores and its memory"
        yield Problem(what, f"Give --workers {most}, or another --runner")
    size = work.output_bytes / layout.shards
    if layout.train_shards == MAX_SHARDS and size > _GB:
        what = f"names allow {MAX_SHARDS:,} shards, so that each has {format_size(size)}"
        yield Problem(what, "Split the corpus into several builds, and mix them when reading")


def _find_in_steps(setting: Setting) -> Iterator[Problem]:
    for step in setting.schedule.steps:
        if step.longest_seconds > _MOST_SECONDS:
            share = "is one worker's" if step.is_serial else "has units that are one worker's"
            what = f"the step '{step.name}' {share} for {format_duration(step.longest_seconds)}"
            yield Problem(what, _shorten(step, setting.work))


def _shorten(step: Step, work: Workload) -> str:
    """Say how a step's units become shorter."""
    if step.name in {"find duplicates", "read and tokenize"}:
        if work.largest_task_bytes <= 2 * work.job.range_bytes:
            return "Give a smaller --range-bytes"
        size = format_size(work.largest_task_bytes)
        return f"A file that is read whole has {size}: decompress it, or split it"
    if step.name in {"commit", "decide"} and work.job.commit.joined:
        return "It joins all shards of a split into one file: give another --output-format"
    wider = " or a larger --bin-size" * (work.job.output_options.bin_size is not None)
    return {
        "list tasks": f"It lists {work.job.plan.tasks:,} tasks: give a larger --range-bytes",
        "write pool": f"The pool has {format_size(work.pool_bytes)}: give a smaller --pool-tokens",
        "merge": f"A merge has {format_size(work.merge_bytes)}: give fewer --num-shards",
        "build shards": "Give more --num-shards",
        "join segments": "Give a larger --range-bytes",
        "join rejects": "Give a larger --range-bytes",
        "decide": f"It lists {work.shard_files:,} files: give fewer --num-shards{wider}",
        "finish": f"It lists {work.shard_files:,} files: give fewer --num-shards{wider}",
        "remove temporary files": "Give a larger --range-bytes",
        "commit": f"It handles {work.job.plan.ranges:,} ranges: give a larger --range-bytes",
    }.get(step.name, "Report it: it does not grow")


def _find_slow_shuffle(work: Workload) -> Iterator[Problem]:
    reads = work.segments * work.builders
    if work.segment_bytes < SMALLEST_SEGMENT_BYTES / 2 and reads > _MANY:
        size = format_size(work.segment_bytes)
        what = f"{reads:,.0f} reads of {size} take longer to begin than to do"
        yield Problem(what, "Give fewer --num-shards")


def _find_many_requests(setting: Setting) -> Iterator[Problem]:
    requests, seconds = count_requests(setting.work), max(1.0, setting.schedule.duration)
    for name, number, most in (
        ("reads", requests.reads, _READS_A_SECOND),
        ("writes", requests.writes, _WRITES_A_SECOND),
    ):
        if number / seconds > most:
            what = f"{number / seconds:,.0f} {name} a second; a new bucket takes {most:,}"
            yield Problem(what, "Begin with fewer --workers, as buckets grow with their load")
