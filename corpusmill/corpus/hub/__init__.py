"""Corpora of the Hugging Face hub."""
