"""RenderCache: facts about a conversation's messages, kept from one compilation to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate import formats
from rehydrate.formats import anthropic_writing
from rehydrate.messages import Message
from rehydrate.prompt.digests import digest_and_mark


class Fingerprint(NamedTuple):
    """The facts about a message, system block or tool that its segment states."""

    value: Any
    """Held, so that no other object can get its `id`."""
    digest: str
    blocks: int
    is_marked: bool
    """Whether it has a cache mark."""


class RenderCache:
    """A cache for prompts that extend one another. Its keys are the identities of objects.

    Messages must not be changed while it is in use. It serves one compilation at a time, and holds
    the messages of the last one.
    """

    __slots__ = (
        "_fingerprints",
        "_new_fingerprints",
        "_new_rendered",
        "_parsed",
        "_rendered",
        "_sections",
        "_valid",
    )

    def __init__(self) -> None:
        """Start empty."""
        self._fingerprints: dict[int, Fingerprint] = {}
        self._new_fingerprints: dict[int, Fingerprint] = {}
        self._rendered: dict[int, tuple[object, Any]] = {}
        self._new_rendered: dict[int, tuple[object, Any]] = {}
        self._parsed: dict[int, tuple[Any, Message]] = {}
        self._sections: dict[int, object] = {}
        self._valid: list[Any] = []

    def fingerprint(self, value: Any) -> Fingerprint:
        """Return the fingerprint of a value that is sent."""
        key = id(value)
        found = self._fingerprints.get(key) or self._new_fingerprints.get(key)
        if found is None:
            content = value.get("content")
            blocks = len(content) if isinstance(content, (list, tuple)) else 1
            digest, may_be_marked = digest_and_mark(value)
            is_marked = may_be_marked and bool(
                anthropic_writing.marks_in(content if content else value)
            )
            found = Fingerprint(value, digest, blocks, is_marked)
        self._new_fingerprints[key] = found
        return found

    def rendered(self, source: object, render: Callable[[], Any]) -> Any:
        """Return the message made from a section or a constant; `render` makes it where needed."""
        key = id(source)
        found = self._rendered.get(key) or self._new_rendered.get(key) or (source, render())
        self._new_rendered[key] = found
        return found[1]

    def was_sent(self, section: object) -> bool:
        """Whether this very section was in the last prompt."""
        return id(section) in self._sections

    def note_sections(self, sections: Iterable[object]) -> None:
        """Store the sections of this prompt, for `was_sent`."""
        self._sections = {id(section): section for section in sections}

    def parsed(self, message: Any, provider: str) -> Message:
        """Return a message in the provider's format, parsed by itself, without its texts."""
        found = self._parsed.get(id(message))
        if found is None:
            (parsed,) = formats.parse([message], provider).messages
            found = self._parsed[id(message)] = message, parsed._replace(pieces=())
        return found[1]

    def first_unvalidated(self, values: Sequence[Any]) -> int:
        """Return the index from which a prompt must be validated; all before it is valid.

        It is the start of an assistant turn inside the last prompt. That prompt was validated with
        what comes before this turn, so no call before it is open.
        """
        unchanged = 0
        for value, before in zip(values, self._valid, strict=False):
            if value is not before:
                break
            unchanged += 1
        for index in range(unchanged - 1, 0, -1):
            if _role(values[index]) == "assistant" and _role(values[index - 1]) == "user":
                return index
        return 0

    def commit(self, valid: Sequence[Any]) -> None:
        """End a compilation: store its valid messages, and forget what only older prompts had."""
        self._fingerprints, self._new_fingerprints = self._new_fingerprints, {}
        self._rendered, self._new_rendered = self._new_rendered, {}
        self._valid = list(valid)
        sent = set(map(id, valid))
        self._parsed = {key: found for key, found in self._parsed.items() if key in sent}


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None
