"""Data sets that exist: appended to, edited, joined, and built again."""
