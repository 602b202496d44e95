"""How a data set's card tells to read its shards, by their file format."""
