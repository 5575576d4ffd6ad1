"""Benchmarks: the same work by nwsim, by other packages and by plain C, in one run."""
