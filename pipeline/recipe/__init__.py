"""What is built: input, sources, tokenizer and options, checked before any work."""
