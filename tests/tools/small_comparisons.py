"""Comparisons of documents that take many buckets and levels of merges although they are small."""

import pytest

import transforms.corpus.duplicates
import transforms.shuffle.segments


def shrink_comparisons(
    monkeypatch: pytest.MonkeyPatch, rows: int, bucket_bytes: int, merge_bytes: int
) -> None:
    """Let fewer rows and bytes fill a batch, a bucket and a merge; a small merge takes levels."""
    module = transforms.corpus.duplicates
    monkeypatch.setattr(module, "_ROWS", rows)
    monkeypatch.setattr(module, "_BUCKET_BYTES", bucket_bytes)
    monkeypatch.setattr(transforms.shuffle.segments, "MERGE_BYTES", merge_bytes)
    if merge_bytes < bucket_bytes:
        monkeypatch.setattr(module, "count_groups", lambda layout, _: (layout.shards + 1) // 2)
        monkeypatch.setattr(transforms.shuffle.segments, "MOST_REFERENCES", 2)
