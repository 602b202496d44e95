"""Tokenized documents to training examples: one module an objective, and the kernels they share."""
