"""Thresholds that a test crosses with a few rows."""

from corpusmill.limits import Limits, StageLimits


def stage_limits(**values: int) -> Limits:
    """Return the thresholds of a run, with some other values for its stages."""
    return Limits(stages=StageLimits(**values))


def limit_flags(**values: int) -> list[str]:
    """Return the flags of a command for these thresholds of its stages."""
    return ["--limits", *(f"stages.{name}={value}" for name, value in values.items())]


def comparison_limits(bucket_bytes: int, merge_bytes: int) -> Limits:
    """Return thresholds under which few documents are compared in many buckets and levels."""
    levels = {"most_references": 2, "smallest_segment_bytes": 16 * 2**20}
    bounds = {"hash_bucket_bytes": bucket_bytes, "merge_bytes": merge_bytes, "filter_bits": 1024}
    return stage_limits(**bounds, **(levels if merge_bytes < bucket_bytes else {}))
