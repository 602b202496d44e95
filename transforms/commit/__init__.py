"""From finished shards to a data set: counts, names, manifest and `_SUCCESS`."""
