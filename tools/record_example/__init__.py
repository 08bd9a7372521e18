"""Records the shipped example: a scripted session on this repository, run for real."""
