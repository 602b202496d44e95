"""Documents and sentences from text files."""
