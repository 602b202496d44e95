"""Which sample is read when: a pure function of the seed, the epoch and the number."""
