from tests.buckets import bucket

__all__ = ["bucket"]
