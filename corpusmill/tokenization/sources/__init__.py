"""Tokenizers of every kind, from files and from the Hugging Face hub, as tokenizer.json.

- `read`: what a user names, on the hub as well, or a vocabulary -> a `TokenizerFile`.
- `source`: what the kinds have in common.
- `byte_vocabulary`: the tokenizer of bytes, without a file.
- `tiktoken`, `sentencepiece` (with `charsmap`): one conversion each.
- `proof`: whether two tokenizers give the same ids.
"""
