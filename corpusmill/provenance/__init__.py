"""Where rows come from: the documents, the files and the tokens of each row, and their text."""
