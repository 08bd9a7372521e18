"""ConversionError: a model that cannot be converted, where the reason lies, and what to do."""

from __future__ import annotations

from rehydrate.errors import InvalidArgumentError


class ConversionError(InvalidArgumentError):
    """A model that cannot be converted. `place` is the file or folder, the rest is for people.

    >>> print(ConversionError("config.json", "model_type is 'gpt2', supported: 'bert'", "choose"
    ...     " a BERT-like model"))
    config.json: model_type is 'gpt2', supported: 'bert'; choose a BERT-like model
    """

    def __init__(self, place: object, problem: str, remedy: str) -> None:
        """Take the place, the value with its limit, and the remedy."""
        self.place = str(place)
        self.problem = problem
        self.remedy = remedy
        super().__init__(self.place, problem, remedy)

    def __str__(self) -> str:
        """One line: place, problem, remedy."""
        return f"{self.place}: {self.problem}; {self.remedy}"
