"""All numbers of a plan, in JSON's types; the report in the terminal is made of them.

    {"format": "corpusmill-plan", "format_version": 1, "corpusmill_version": "0.1.0",
     "objective": {"name": "bert", "options": {...}, "repeats": 10},
     "corpus": {"bytes": 5000000000000, "files": 5000, "file_bytes": 1000000000.0,
                "input_format": "text"},
     "runner": "DataflowRunner", "workers": 200,
     "sample": {"text": "...", "bytes": 8000000, "tokens": 1700000, "examples": 71000,
                "seconds": 3.9, "processor_seconds": 1.2, "warming_seconds": 1.9},
     "counts": {"tasks": 75000, "ranges": 75000, "shards": 99999, "documents": ..., ...},
     "bytes": {"output": ..., "shard": ..., "temporary": ..., ...},
     "requests": {"reads": ..., "writes": ...},
     "steps": [{"name": "read and tokenize", "units": 75000, "processor_hours": ...,
                "wait_hours": ..., "longest_seconds": ..., "seconds": ...}, ...],
     "duration_seconds": ..., "shortest_duration_seconds": ..., "bottleneck": "write pool",
     "processor_seconds": ..., "worker_hours": ..., "billed_hours": ...,
     "dollars": {"processors": ..., ..., "total": ...}, "storage_dollars_a_month": ...,
     "assumptions": {"prices_of": "2025-06-01", "machine_type": ..., ...},
     "limits": [{"name": "input files", "value": 5000, "most": 16777216, "is_size": false}, ...],
     "problems": [{"what": ..., "cure": ..., "is_fatal": true}]}

Tasks, ranges, shards and merges are exact: the job cuts its work by the same functions. All else is
estimated from the sample.
"""

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from pipeline.planning.costs import compute_costs, count_requests
from pipeline.planning.limits import Limit, list_limits
from pipeline.planning.machines import PRICES_OF
from pipeline.planning.planned_build import PlannedBuild, expansion_of
from pipeline.planning.schedule import Step
from pipeline.planning.workload import Workload

FORMAT, FORMAT_VERSION = "corpusmill-plan", 1
_GB = 10**9


def list_numbers(planned: PlannedBuild) -> dict[str, Any]:
    """List the numbers of a plan, as in the module's docstring."""
    setting, work = planned.setting, planned.setting.work
    schedule, machine = setting.schedule, setting.machine
    dollars = compute_costs(work, schedule, machine, setting.on_dataflow)
    objective = work.job.objective
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "corpusmill_version": version("corpusmill"),
        "objective": {
            "name": objective.name,
            "options": asdict(planned.recipe.objective_options),
            "repeats": objective.repeats,
        },
        "corpus": {
            "bytes": work.input_bytes,
            "files": work.input_files,
            "file_bytes": planned.file_bytes,
            "input_format": planned.recipe.documents.input_format,
        },
        "runner": setting.engine.name,
        "workers": schedule.workers,
        "sample": _sample_numbers(planned),
        "counts": _counts(work),
        "bytes": _bytes(work) | {"graph": setting.graph_bytes},
        "requests": count_requests(work)._asdict(),
        "steps": [_step_numbers(step, schedule.workers) for step in schedule.steps],
        "start_seconds": schedule.start_seconds,
        "duration_seconds": schedule.duration,
        "shortest_duration_seconds": schedule.shortest_duration,
        "bottleneck": schedule.bottleneck.name,
        "processor_seconds": schedule.processor_seconds,
        "worker_hours": schedule.worker_hours,
        "billed_hours": schedule.billed_hours,
        "dollars": dollars | {"total": sum(dollars.values())},
        "storage_dollars_a_month": work.output_bytes / _GB * machine.storage_price,
        "assumptions": {"prices_of": PRICES_OF, **asdict(machine)},
        "limits": [_limit_numbers(limit) for limit in list_limits(setting)],
        "problems": [asdict(problem) for problem in planned.problems],
    }


def _limit_numbers(limit: Limit) -> dict[str, Any]:
    return {name: getattr(limit, name) for name in ("name", "value", "most", "is_size")}


def _sample_numbers(planned: PlannedBuild) -> dict[str, Any]:
    sample, inputs = planned.sample, planned.options.dataset.parts
    return {
        "text": " ".join(inputs) or _describe_text(planned),
        "is_of_the_corpus": bool(inputs),
        "bytes": round(sample.stored_bytes),
        "tokens": sample.counts["tokenize.tokens"],
        "examples": sample.counts["build.examples"],
        "seconds": planned.seconds,
        "processor_seconds": sum(sample.seconds.values()),
        "warming_seconds": sample.warming_seconds,
    }


def _describe_text(planned: PlannedBuild) -> str:
    text = "English text (Python's documentation)"
    expansion = expansion_of(planned.recipe)
    return f"{text}, taken to be {expansion:g} times as large as its file" * (expansion > 1) or text


def _counts(work: Workload) -> dict[str, float]:
    job = work.job
    return {
        "tasks": job.plan.tasks,
        "ranges": job.plan.ranges,
        "shards": job.layout.shards,
        "train_shards": job.layout.train_shards,
        "validation_shards": job.layout.validation_shards,
        "shard_files": work.shard_files,
        "merges": work.merges,
        "documents": round(work.documents),
        "tokens": round(work.tokens),
        "examples": round(work.examples),
        "rows": round(work.rows),
        "row_tokens": round(work.examples * work.rates.row_tokens),
        "shuffled_elements": round(work.references),
        "temporary_files": round(work.temporary_files),
        "open_files": work.open_files,
    }


def _bytes(work: Workload) -> dict[str, float]:
    return {
        "output": work.output_bytes,
        "shard": work.output_bytes / work.job.layout.shards,
        "temporary": work.temporary_bytes,
        "most_at_once": work.temporary_bytes + work.output_bytes,
        "pool": work.pool_bytes,
        "shuffled": work.references * work.rates.reference,
        "largest_key": max(work.merge_values, work.shard_values) * work.rates.reference,
        "merge": work.merge_bytes,
        "worker_memory": work.worker_bytes,
        "worker_disk": work.scratch_bytes + work.pool_bytes,
        "manifest": work.manifest_bytes,
    }


def _step_numbers(step: Step, workers: int) -> dict[str, Any]:
    return {
        "name": step.name,
        "units": step.units,
        "processor_hours": step.processor_seconds / 3600,
        "wait_hours": step.wait_seconds / 3600,
        "longest_seconds": step.longest_seconds,
        "seconds": step.duration(workers),
    }
