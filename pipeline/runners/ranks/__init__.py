"""One job on all processes that a launcher has started: rank 0 drives it, others work for it."""
