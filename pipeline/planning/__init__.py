"""A plan of a build of any size: what it takes, what it costs, and what would break."""
