"""From the documents of a shard to its examples."""
