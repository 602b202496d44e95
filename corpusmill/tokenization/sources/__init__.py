"""Tokenizers of every kind, from files and from the Hugging Face hub, as tokenizer.json.

- `read`: what a user names -> a `TokenizerFile`.
- `source`: what the kinds have in common.
- `vocabulary`, `tiktoken`, `sentencepiece` (with `sentencepiece_proto`): one conversion each.
- `hub`: a name on the hub -> a folder of its files.
- `proof`: whether two tokenizers give the same ids.
"""
