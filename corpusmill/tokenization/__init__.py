"""Text to token ids: tokenizers from files or training, applied fast to sentences.

- `sources`: tokenizers of every kind, read as a `tokenizer_file`.
- `training`: tokenizers trained from a corpus.
- `compiled`: exact and fast tokenization.
- `words`: which tokens belong to one word.
- `encoding`, `sentence_tokenizer`: documents and sentences to ids.
- `tokenizer_file`: what a tokenizer.json says, and its special tokens.
"""
