"""Documents brought to their shards: temporary files, and trees of files."""
