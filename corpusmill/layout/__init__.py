"""Which shard a row is in, and its place there."""
