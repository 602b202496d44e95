"""Batches loaded ahead, by threads."""
