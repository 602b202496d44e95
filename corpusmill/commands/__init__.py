"""The commands of `corpusmill`: one table of all of them, and those that need the library alone."""
