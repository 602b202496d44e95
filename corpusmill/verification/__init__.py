"""A data set compared with its manifest, file by file."""
