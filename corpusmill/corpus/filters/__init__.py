"""Which documents are left out of a data set, and why."""
