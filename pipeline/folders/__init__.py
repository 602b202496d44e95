"""Where a run works: output folders, claims, temporary files, and `--resume`."""
