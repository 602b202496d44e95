"""Kernels that cut documents into examples."""
