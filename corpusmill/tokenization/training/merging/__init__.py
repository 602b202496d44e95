"""Byte-pair merges learned from counted words, in compiled loops.

- `cells`: the symbols of all words in one array, in which symbols are joined in place.
- `token_texts`: the texts of tokens, found by their bytes.
- `pair_queue`: pairs in the order in which they are merged.
- `pairs`: what pairs are counted in, and the pairs of the words at the beginning.
- `steps`: one merge, and all of them.
"""
