"""Ragged rows, the table of columns, keyed random numbers and the cache of compiled kernels."""
