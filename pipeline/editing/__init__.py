"""Data sets that exist: appended to, edited, and built again."""
