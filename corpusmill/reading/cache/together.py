"""Shards of one data set or of several that are unpacked at the same time."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from corpusmill.reading.cache.shard_cache import ShardCache, Stored

# Shards that are unpacked at a time; each takes a few dozen megabytes of memory.
_THREADS = 4


def unpack_together(stored: Collection[Stored]) -> None:
    """Unpack shards that are read together, several at a time.

    Most of the work is done without the GIL. A single shard is left to `ShardCache.columns`.

    Raises:
        UserError: a shard is damaged or missing, or there is no room for it.
    """
    missing = [(cache, shard) for cache, shard in stored if not cache.is_unpacked(shard)]
    if len(missing) < 2:
        return
    together: dict[ShardCache, list[int]] = {}
    for cache, shard in stored:
        together.setdefault(cache, []).append(shard)
    with ThreadPoolExecutor(min(len(missing), _THREADS)) as threads:
        for _ in threads.map(lambda one: one[0].columns(one[1], together[one[0]]), missing):
            pass
