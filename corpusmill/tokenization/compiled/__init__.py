"""Compiled tokenization that gives exactly the ids of the tokenizers library.

- `exactness`: whether and where a tokenizer allows text to be cut into units.
- `line_cuts`, `units`: text cut at line breaks, and prepared to be cut into units at spaces.
- `word_memo` (with `word_memo_kernels`, `unit_words`): the ids of units, remembered.
- `byte_level_bpe` (with `byte_level_patterns`, `byte_level_pieces`, `byte_level_tokens`,
  `byte_level_characters`, `byte_level_kernels`) and `wordpiece` (with `wordpiece_kernels`):
  tokenizers compiled from their tokenizer.json.
- `spans`: what all of them take and return; `characters`, `hash_table`, `pair_table`: what kernels
  share.
"""
