"""Programs to read and to begin from: what a trainer does with a data set."""
