"""What the commands do that need Beam: checked, run by an engine, and reported."""
