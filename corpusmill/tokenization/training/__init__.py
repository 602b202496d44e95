"""Tokenizers trained from a stream of text, so that the corpus need not fit into memory.

Only the counts of distinct words are kept, and the same counts and options give the same file, byte
for byte: `models` says why.

- `models`: the models by name, with their options and their training; they need the sentencepiece
  library.
- `extension`: a tokenizer extended, in place of trained.
- `parts`: what trained tokenizers are put together of, and BERT's tokenizer.
- `training_options`: what the options of all models have in common.
- `word_counters` (with `word_table`, `counting_kernels`): text to counted words.
- `counted_words`: counted words, cut down and sorted; which documents of a corpus to train with.
- `merges` (with `merge_pairs`, `merge_steps`): byte-pair merges learned from counted words.
"""
