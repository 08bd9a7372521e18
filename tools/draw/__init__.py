"""Draws the pictures of the docs from measured figures: `python -m tools.draw`."""
