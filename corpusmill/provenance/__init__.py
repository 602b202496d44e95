"""Where the rows of a data set come from: the table of its documents, and how it is looked up."""
