"""Answer: what a tool answers, as text for a model and as an object for a program."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from rehydrate._text import as_json, as_unicode


class Answer(NamedTuple):
    """The answer to one call."""

    text: str
    structured: dict[str, Any] | None = None
    is_error: bool = False

    @classmethod
    def of(cls, structured: dict[str, Any]) -> Self:
        """Return the object as itself and as JSON, as the protocol asks of servers.

        >>> Answer.of({"handle": "mem_1"}).text
        '{"handle":"mem_1"}'
        """
        text = as_json(structured, allow_nan=False, separators=(",", ":"))
        return cls(text, structured)

    @classmethod
    def of_text(cls, text: str, **more: Any) -> Self:
        """Return a text for a model; the object holds it too, since some clients show only that."""
        clean = as_unicode(text)
        return cls(clean, {"text": clean, **more})

    @classmethod
    def of_error(cls, text: str) -> Self:
        """Return an error that the model can read."""
        return cls(as_unicode(text), None, is_error=True)
