"""Compiled tokenization that gives exactly the ids of the tokenizers library.

- `exactness`: whether and where a tokenizer allows text to be cut into units.
- `units`: where text is cut into units, at spaces or signs, and what all tokenizers of stretches of
  text take and return.
- `word_memo`: the ids of units, remembered.
- `byte_level_bpe` (with `byte_level_pieces`), `wordpiece` and `unigram` (with `unigram_text`):
  tokenizers compiled from their tokenizer.json.
"""
