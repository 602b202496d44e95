"""Rows into padded batches."""
