"""What a run shows: progress, log and reports."""
