"""Tokenizers trained from a stream of text, so that the corpus need not fit into memory.

Only the counts of distinct words are kept, and the same counts and options give the same file, byte
for byte: each model's module says why.

- `models`: the models by name, with their options.
- `wordpiece`, `merges` (byte-level BPE), `unigram` (and whole words): the models; the unigram model
  needs the sentencepiece library.
- `training_options`: what the options of all models have in common.
- `word_counters` (with `word_table`, `counting_kernels`): text to counted words.
- `counted_words`, `word_characters`: counted words, cut down, sorted, and their characters; which
  documents of a corpus to train with.
- `merges` (with `merging`): byte-pair merges learned from counted words.
"""
