"""Readers for trainers: examples by number, orders, batches and collators.

They need only NumPy, but for `corpusmill.reading.torch`, which needs PyTorch (the extra "torch").
"""
