from tests.tools.buckets import bucket

__all__ = ["bucket"]
