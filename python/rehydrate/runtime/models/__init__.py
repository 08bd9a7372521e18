"""Models: what answers a prompt."""
