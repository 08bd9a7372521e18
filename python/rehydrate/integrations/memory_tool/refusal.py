"""Refusal: a command that was not carried out, and what the model is told."""


class Refusal(Exception):  # noqa: N818  it is an answer, not an error of the program
    """Its message is the answer to the model; nothing was changed."""
