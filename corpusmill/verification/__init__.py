"""A data set compared with its manifest, file by file, and its provenance with its shards."""
