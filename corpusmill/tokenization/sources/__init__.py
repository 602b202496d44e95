"""Tokenizers from files and from the Hugging Face hub."""
