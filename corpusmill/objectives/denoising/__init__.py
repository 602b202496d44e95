"""Kernels that turn text into the inputs and targets of encoder-decoders."""
