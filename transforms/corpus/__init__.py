"""From files to documents: planned, read, compared, tokenized, and measured."""
