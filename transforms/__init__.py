"""Beam transforms around the library's kernels: unpack, call, count, yield."""
