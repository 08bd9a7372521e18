"""Compiling: what goes into a prompt, from sources to a provider's shape."""
