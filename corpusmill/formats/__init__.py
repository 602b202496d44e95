"""One module a file format: batches of examples to bytes, and back."""
