"""Readers for PyTorch."""
