"""Compiled tokenization, proven equal to the tokenizers library."""
