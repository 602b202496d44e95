"""How the job is run: one class per engine, listed in `launch`."""
