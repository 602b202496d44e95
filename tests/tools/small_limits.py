"""Thresholds that a test crosses with a few rows."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from corpusmill.limits import (
    LIMITS,
    Limits,
    RefusalLimits,
    StageLimits,
)


@contextmanager
def default_limits(limits: Limits) -> Iterator[None]:
    """Let commands take these thresholds where no flag gives others."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("pipeline.job_options.LIMITS", limits)
        yield


def stage_limits(**values: int) -> Limits:
    """Return the thresholds of a run, with some other values for its stages."""
    return Limits(stages=StageLimits(**values))


def refusal_limits(**values: int) -> Limits:
    """Return the thresholds of a run, with some other values for what is refused."""
    return Limits(refusals=RefusalLimits(**values))


# Sound files are read in many steps, and none of them is refused.
SMALL_STEPS = refusal_limits(
    small_chunk_bytes=1, decoded_bytes=500, decoded_rows=7, dictionary_rows=2, repeated_bytes=500,
    few_repeated_bytes=100, avro_header_bytes=2**13, compressed_step=100, text_step=150,
    arrow_step=120,
)  # fmt: skip

# A corpus of some kilobytes takes several steps, files, parts and levels everywhere.
TINY = Limits(
    stages=StageLimits(
        fan_in=3,
        buffer_bytes=5_000,
        smallest_segment_bytes=2_000,
        merge_bytes=20_000,
        most_references=4,
        joined_bytes=1_000,
        reserved_bytes=1_000,
        sort_bytes=20_000,
        sort_file_bytes=5_000,
        candidate_bytes=500,
        hash_bucket_bytes=300,
        filter_bits=1024,
        partition_bytes=3_000,
        most_partitions=5,
        added_bytes=2_000,
        small_batch_bytes=1,
        small_file_bytes=100,
        looked_at_files=2,
        most_fetched_bytes=100,
        copied_bytes=100,
    ),
)


def limit_flags(**values: int) -> list[str]:
    """Return the flags of a command for these thresholds of its stages."""
    return flags_of(stage_limits(**values))


def flags_of(limits: Limits) -> list[str]:
    """Return the flags of a command for the thresholds that are not the usual ones."""
    usual, values = LIMITS.values(), limits.values()
    return [
        "--limits",
        *(f"{name}={values[name]}" for name in values if values[name] != usual[name]),
    ]


def comparison_limits(bucket_bytes: int, merge_bytes: int) -> Limits:
    """Return thresholds under which few documents are compared in many buckets and levels."""
    levels = {"most_references": 2, "smallest_segment_bytes": 16 * 2**20}
    bounds = {"hash_bucket_bytes": bucket_bytes, "merge_bytes": merge_bytes, "filter_bits": 1024}
    return stage_limits(**bounds, **(levels if merge_bytes < bucket_bytes else {}))
