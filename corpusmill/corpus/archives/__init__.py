"""Documents from tar archives and WET files."""
