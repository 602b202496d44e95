"""Which tokens belong to one word."""
