"""The job: command line, options, the graph, and how it is run."""
