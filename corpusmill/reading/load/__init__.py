"""Batches loaded ahead, by threads and worker processes."""
