"""PromptIR: the content of one prompt, before it has any provider's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rehydrate.errors import Violation
from rehydrate.prompt import explain, laws, serialize
from rehydrate.prompt.content import PromptContent
from rehydrate.prompt.explain import IRDiff, PromptExplanation


@dataclass(frozen=True, slots=True)
class PromptIR(PromptContent):
    """The content of one prompt: sections, tools, history, budget, and the record of its making.

    It is frozen: a pass returns a new one.
    """

    def verify(self, *, violations: Sequence[Violation] | None = None) -> list[laws.BrokenLaw]:
        """Return the laws that it breaks; empty for a prompt that may be sent.

        ``violations`` are those of the history, where the caller has validated it already.

        >>> from rehydrate.prompt import Provenance, Section
        >>> twice = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR(sections=(twice, twice)).verify()[0])
        two sections have the id 'notes' (once)
        """
        return laws.verify(self, violations=violations)

    def explain(self) -> PromptExplanation:
        """Return a table: where each part is, its cost and source, what was left out and why.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> [(row.id, row.tokens) for row in PromptIR(sections=(notes,)).explain().rows]
        [('notes', 4)]
        """
        return explain.explain(self)

    def diff(self, other: PromptIR) -> IRDiff:
        """Return the changes from this one to the other.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR().diff(PromptIR(sections=(notes,))))
        0 -> 4 tokens
          + notes added: +4 tokens
        """
        return explain.diff(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Return the IR as JSON values; message objects become dicts.

        Raises UnreadableIRError, with the path in the IR, for a value that JSON cannot hold.
        """
        return serialize.ir_to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text.

        >>> PromptIR.from_json(PromptIR().to_json()) == PromptIR()
        True
        """
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; the result equals the IR it was called on.

        Raises UnreadableIRError, with the path in the document, for an unknown or missing field, a
        value of another type, and a document of a newer version.
        """
        return serialize.ir_from_dict(cls, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))
