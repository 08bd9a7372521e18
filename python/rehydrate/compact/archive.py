"""The writes of a compaction to memory: dropped messages, novel memories (which dropped units are
worth one of their own, and of which kind), and an episode.

Everything that one compaction drops is written in one transaction, before the caller gets the
result. A failed write never fails the call: `degraded` says what was not stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rehydrate import _native, _text
from rehydrate._text import json_value, safe_error_text
from rehydrate.compact.signals import COVERED, valid_unicode
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation, Message

if TYPE_CHECKING:
    from datetime import datetime

    from rehydrate.compact.result import Stats
    from rehydrate.compact.signals import WritableMemory
    from rehydrate.memory.items import MemoryItem
    from rehydrate.memory.redaction import Redactor


TOOL = "compact_context"
"""The tool in the provenance of these memories."""

_TRUST = {"user": 1.0, "assistant": 0.8}
_TRUST_IN_OTHERS = 0.5
"""A tool's result may be anybody's words."""

_THREAD_HASH_CHARACTERS = 16
_REDACTION_LABEL = re.compile(r"\[redacted:(\w+)\]")


@dataclass(frozen=True, slots=True)
class Archive:
    """The choice of what `compact_context` writes to its memory before it drops messages.

    Secrets are redacted first. Raises InvalidArgumentError for a value outside its limits.

    >>> Archive(novel=True)
    Archive(dropped=True, novel=True, episode=False, thread=None)
    """

    dropped: bool = True
    """Write every dropped message whole, as JSON, under the handle in ``Compaction.dropped``, and
    every text that is kept in part, under the handle in its marks."""
    novel: bool = False
    """Write the beginning of each dropped unit that memory does not hold yet, as a memory of its
    own; ``stats.distilled`` counts them."""
    episode: bool = False
    """Write one line that says the compaction took place."""
    thread: str | None = None
    """The conversation's name in memory. None: its own id, or a hash of its first message."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("dropped", "novel", "episode"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise InvalidArgumentError(f"Archive: {name} is {value!r}; pass True or False")
        if not (self.dropped or self.novel or self.episode):
            raise InvalidArgumentError(
                "Archive: dropped, novel and episode are all False; pass archive=False to write "
                "nothing"
            )
        thread = self.thread
        if thread is not None and not (
            isinstance(thread, str) and thread and valid_unicode(thread) == thread
        ):
            raise InvalidArgumentError(
                f"Archive: thread is {thread!r}; pass a name of the conversation, or None to take "
                "its own"
            )


class ArchiveWriter:
    """Writes what one compaction drops, with the conversation as provenance."""

    def __init__(
        self,
        memory: WritableMemory,
        archive: Archive,
        conversation: Conversation,
        entries: Sequence[Any],
        origins: Sequence[int] | None,
    ) -> None:
        """Keep the target and the caller's list; nothing is written yet.

        ``origins`` maps the index of a message to the one in the caller's list, if they differ.
        """
        self._memory = memory
        self._archive = archive
        self._has_failed = False
        """After a failed write the next one would only wait again."""
        self._conversation = conversation
        self._entries = entries
        self._origins = origins
        self._redactor: Redactor | None = None
        """The memory's redactor; None if it redacts nothing."""
        self._thread = ""
        self.problems: list[str] = []
        """The writes that failed, and why."""
        self._handle_of_text: dict[str, str] = {}

    def write(
        self, decision: _native.Decision, excerpts: _native.Excerpts | None
    ) -> tuple[Mapping[str, int], Mapping[int, str]]:
        """Write novel memories, dropped messages, and the whole texts of excerpts; return the
        number of novel ones by kind, and index -> handle in memory, for dropped messages."""
        archive, dropped = self._archive, decision.dropped_units()
        partial = excerpts.partial_texts() if excerpts else ()
        try:
            self._redactor = getattr(self._memory, "redactor", None)
            self._thread = archive.thread or self._own_thread()
            novel = self._novel_items(dropped) if archive.novel else []
            messages = self._message_items(dropped) if archive.dropped else {}
            texts = self._text_items(partial) if archive.dropped else {}
            added = self._add([*novel, *messages.values(), *texts.values()])
        except Exception as error:
            self._give_up(error, "nothing of this compaction is kept")
            return {}, {}
        handles = iter([handle for handle, _ in added[len(novel) :]])
        handle_of = {index: next(handles) for index in messages}
        self._handle_of_text |= zip(texts, handles, strict=True)
        created = [item.kind for item, (_, is_new) in zip(novel, added, strict=False) if is_new]
        return {kind: created.count(kind) for kind in dict.fromkeys(created)}, handle_of

    def handle_of(self, message: Message, text: str) -> str:
        """Return the handle of the whole text that is kept in part; "" if it has none."""
        if self._has_failed or not self._archive.dropped:
            return ""
        if text not in self._handle_of_text:  # `Excerpts.fit` cut it later, to make room
            self._handle_of_text[text] = ""
            try:
                added = self._add([*self._text_items([(message, text)]).values()])
            except Exception as error:
                self._give_up(error, f"a text of message {self._index(message)} is not kept")
            else:
                self._handle_of_text[text] = added[0][0] if added else ""
        return self._handle_of_text[text]

    def record(self, stats: Stats) -> Stats:
        """Write the episode, if wanted and if anything changed; return the stats, with a failure in
        `degraded`."""
        if self._has_failed or not self._archive.episode or not stats.changed:
            return stats
        from rehydrate.memory.items import MemoryItem

        text = (
            f"{stats.before_tokens}->{stats.after_tokens} tokens, "
            f"{stats.covered_pct:.0f}% dropped as memory-covered"
        )
        try:
            self._add([MemoryItem(text, kind=EPISODE, **self._origin())])
        except Exception as error:
            self._give_up(error, "the episode is not recorded")
            return stats._replace(degraded=(*stats.degraded, self.problems[-1]))
        return stats

    def _add(self, items: Sequence[MemoryItem]) -> list[tuple[str, bool]]:
        """Store the items; return for each its handle, and whether it is new."""
        added = list(self._memory.add(items)) if items else []
        if len(added) != len(items):
            raise ValueError(f"{len(added)} answers for {len(items)} items")
        return [(str(one.handle), bool(one.created)) for one in added]

    def _give_up(self, error: Exception, lost: str) -> None:
        """Note the problem, and write nothing more."""
        self.problems.append(f"memory: {safe_error_text(error, 'memory')}; {lost}")
        self._has_failed = True

    def _novel_items(self, dropped: Iterable[tuple[int, int, float]]) -> list[MemoryItem]:
        items = []
        for index, _, coverage in dropped:
            unit = self._conversation.units[index]
            text, kind = _native.unit_memory(self._conversation, index, MAX_BYTES)
            if unit.is_system or coverage >= COVERED or len(text.encode()) < MIN_BYTES:
                continue
            # Redact before truncating: the redactor would not recognise half a secret.
            redacted = text if self._redactor is None else self._redactor(text).text
            items.append(
                self._item(
                    truncated(redacted),
                    redacted != text,
                    unit.messages[0],
                    kind=kind,
                    confidence=0.5 + 0.25 * (1 - coverage),
                )
            )
        return items

    def _message_items(self, dropped: Iterable[tuple[int, int, float]]) -> dict[int, MemoryItem]:
        """Return index -> item, for each message as it came in; one that JSON cannot hold is left
        out."""
        items: dict[int, MemoryItem] = {}
        for index, *_ in dropped:
            for message in self._conversation.units[index].messages:
                with self._noting_failure(message):
                    whole = message_json(self._entries[message.index])
                    text = self._redacted_json(whole)
                    items[message.index] = self._item(
                        text, text != whole, message, kind="message", tier="cold"
                    )
        return items

    def _text_items(self, texts: Iterable[tuple[Message, str]]) -> dict[str, MemoryItem]:
        """Return text -> item; a text that UTF-8 cannot hold is left out."""
        items: dict[str, MemoryItem] = {}
        for message, text in texts:
            with self._noting_failure(message):
                items[text] = self._item(text, False, message, kind="text", tier="cold")
        return items

    def _item(self, text: str, is_redacted: bool, message: Message, **fields: Any) -> MemoryItem:
        from rehydrate.memory.items import MemoryItem, Redaction

        labels = _REDACTION_LABEL.finditer(text) if is_redacted else ()
        redactions = tuple([Redaction(label[1], *label.span()) for label in labels])
        return MemoryItem(text, redactions=redactions, **self._origin(message), **fields)

    @contextmanager
    def _noting_failure(self, message: Message) -> Iterator[None]:
        """Add a failure to make an item to the problems, and go on."""
        try:
            yield
        except (TypeError, ValueError, RecursionError) as error:
            self.problems.append(
                f"memory: message {self._index(message)} is not kept: "
                f"{safe_error_text(error, 'memory')}"
            )

    def _index(self, message: Message) -> int:
        """Return the index of a message in the caller's list."""
        return message.index if self._origins is None else self._origins[message.index]

    def _origin(self, message: Message | None = None) -> dict[str, Any]:
        """Return the provenance of an item: the conversation's, and the message's if given."""
        source = f"conversation/{self._thread}"
        origin = {"source": source, "thread": self._thread, "tool": TOOL}
        if message is None:
            return origin
        return origin | {
            "trust": _TRUST.get(message.role, _TRUST_IN_OTHERS),
            "time": _timestamp(self._entries[message.index]),
            "metadata": {"role": valid_unicode(message.role), "index": self._index(message)},
        }

    def _redacted_json(self, text: str) -> str:
        """Return the JSON of a message with its strings redacted.

        Each string by itself: escapes hide where a secret begins, and labels must not break JSON.
        """
        if self._redactor is None:
            return text
        message = json.loads(text)
        redacted = self._redactor.inside(message)
        return text if redacted == message else as_json(redacted)

    def _own_thread(self) -> str:
        """Return the transcript's own name, or a hash of the first message, which stays the same
        while a conversation grows."""
        for message in self._conversation.messages:
            entry = self._entries[message.index]
            own = entry.get("sessionId") if isinstance(entry, Mapping) else None
            if isinstance(own, str) and own:
                return valid_unicode(own)
        texts = (
            message.text for message in self._conversation.messages if message.role != "system"
        )
        first = next(texts, "").encode("utf-8", "replace")
        import hashlib  # slow to load, and rarely needed

        return hashlib.sha256(first).hexdigest()[:_THREAD_HASH_CHARACTERS]


def message_json(entry: Any) -> str:
    """Return a message as compact JSON, keys in their order; a LangChain message as its dump.

    >>> message_json({"role": "user", "content": "שלום"})
    '{"role":"user","content":"שלום"}'
    """
    if not isinstance(entry, Mapping):
        entry = {"type": entry.type, "data": entry.model_dump(mode="json")}
    return as_json(entry)


def as_json(value: Any) -> str:
    """Return compact JSON that UTF-8 can hold: a lone surrogate stays an escape."""
    return _text.as_json(value, allow_nan=False, separators=(",", ":"), default=json_value)


def _timestamp(entry: Any) -> datetime | None:
    """Return the time of a transcript's line; None without one, or without its zone."""
    from datetime import datetime

    stamp = entry.get("timestamp") if isinstance(entry, Mapping) else None
    try:
        moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


MIN_BYTES = 40
"""A shorter text says too little to be a memory of its own."""
MAX_BYTES = 600
"""Only the beginning of a longer text becomes a memory."""

EPISODE = "episode"
"""The kind of a text without a cue."""


def truncated(text: str) -> str:
    """Return the first 600 bytes, up to a whole character.

    >>> len(truncated("é" * 400)), truncated("short")
    (300, 'short')
    """
    return text.encode()[:MAX_BYTES].decode(errors="ignore")
