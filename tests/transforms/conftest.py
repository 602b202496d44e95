from tests.tools.buckets import bucket
from tests.tools.remembered_beam import remembered_beam

__all__ = ["bucket", "remembered_beam"]
