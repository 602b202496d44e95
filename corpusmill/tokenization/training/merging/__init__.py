"""Byte-pair merges learned from counted words, in compiled loops.

- `pairs`: the symbols of all words in one array, in which symbols are joined in place; what pairs
  are counted in, and the order in which they are merged.
- `steps`: one merge, and all of them; the texts of tokens, found by their bytes.
"""
