"""How the job is run: one table of runners, one module an engine."""
