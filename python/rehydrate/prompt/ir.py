"""PromptIR: everything that goes into one prompt, before it has any provider's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rehydrate.errors import Violation
from rehydrate.prompt import diff, explain, laws, serialize
from rehydrate.prompt.content import PromptContent
from rehydrate.prompt.explain import PromptExplanation


@dataclass(frozen=True, slots=True)
class PromptIR(PromptContent):
    """Sections, tools, history, budget and how they came to be: frozen, passes return new ones."""

    def verify(self, *, violations: Sequence[Violation] | None = None) -> list[laws.BrokenLaw]:
        """Every law that it breaks, of those that hold of a prompt that is to be sent; empty: none.

        ``violations`` are those of the history, where the caller has validated it already.

        >>> from rehydrate.prompt import Provenance, Section
        >>> twice = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR(sections=(twice, twice)).verify()[0])
        two sections have the id 'notes' (once)
        """
        return laws.verify(self, violations=violations)

    def explain(self) -> PromptExplanation:
        """What stands where, what it costs, where it is from, what went and why: a table.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> [(row.id, row.tokens) for row in PromptIR(sections=(notes,)).explain().rows]
        [('notes', 4)]
        """
        return explain.explain(self)

    def diff(self, other: PromptIR) -> diff.IRDiff:
        """What changed from this one to the other.

        >>> from rehydrate.prompt import Provenance, Section
        >>> notes = Section("notes", "Port 8443.", Provenance("hot"), tokens=4)
        >>> print(PromptIR().diff(PromptIR(sections=(notes,))))
        0 -> 4 tokens
          + notes added: +4 tokens
        """
        return diff.diff(self, other)

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON has; message objects become dicts.

        Raises UnreadableIRError, which names the place, for a value that JSON has no word for.
        """
        return serialize.ir_to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """All of it as JSON.

        >>> PromptIR.from_json(PromptIR().to_json()) == PromptIR()
        True
        """
        return serialize.as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """What `to_dict` made, equal to what it was made of.

        Raises UnreadableIRError, which names the place, for an unknown or missing field, a value of
        another type, and what a newer version wrote.
        """
        return serialize.ir_from_dict(cls, document)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What `to_json` wrote; raises as `from_dict` does."""
        return cls.from_dict(serialize.from_json(text))
