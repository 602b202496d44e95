"""Tokenizers: from their files, trained from a corpus, and sentences to token ids fast."""
