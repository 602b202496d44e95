"""Data sets whose shards are written again without some rows."""
