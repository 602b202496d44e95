"""Programs that train with a data set, to be read and changed."""
