"""Documents from records: JSON lines and CSV rows."""
