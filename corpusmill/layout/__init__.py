"""Which shard a row is in, its place there, and its length bin."""
