"""Kernels that mask tokens."""
