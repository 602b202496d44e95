"""Corpora: files of many formats to documents of sentences, range by range."""
