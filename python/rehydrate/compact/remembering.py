"""What a compaction writes to memory: what was novel, what was dropped, and that it took place.

Everything that one compaction drops is written in one transaction, and before the caller learns
what was dropped. A write that fails never fails the call: `degraded` says what was lost with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate.compact.distilling import (
    EPISODE,
    confidence_of,
    cut,
    is_novel,
    kind_of_unit,
    text_of,
)
from rehydrate.compact.once import once
from rehydrate.compact.recall import clean
from rehydrate.failing import words_of
from rehydrate.messages import Conversation, Message

if TYPE_CHECKING:
    from datetime import datetime

    from rehydrate.compact.compaction import Stats
    from rehydrate.compact.excerpts import Cut
    from rehydrate.compact.recall import WritableMemory
    from rehydrate.compact.report import DroppedUnit, Report
    from rehydrate.memory.items import MemoryItem
    from rehydrate.memory.redaction import Redactor

TOOL = "compact_context"
"""What brought these memories in, as their provenance says."""

_TRUST = {"user": 1.0, "assistant": 0.8}
_TRUST_IN_OTHERS = 0.5
"""What a tool returned may be anybody's words."""

_SESSION_LETTERS = 16
_LABEL = re.compile(r"\[redacted:(\w+)\]")


class Distilled(NamedTuple):
    """How much became a memory of its own."""

    count: int = 0  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    kinds: Mapping[str, int] = {}


class Writing(NamedTuple):
    """What a compaction is asked to write, and where."""

    memory: WritableMemory
    session: str | None
    """The conversation's name, where the caller gives it one."""
    distill_novel: bool
    keep_dropped: bool
    record_episode: bool


class Remembering:
    """The writes of one compaction, with the conversation as their provenance."""

    def __init__(
        self,
        writing: Writing | None,
        conversation: Conversation,
        entries: Sequence[Any],
        degraded: list[str],
    ) -> None:
        """Take what is asked and the list that came in; nothing is written yet."""
        self._writing = writing
        self._conversation = conversation
        self._entries = entries
        self._degraded = degraded
        self._handle_of_text: dict[str, str] = {}

    def write(self, report: Report, cut: Cut | None) -> Distilled:
        """Write what is novel, what is dropped, and the whole texts that are kept in part."""
        if self._writing is None:
            return Distilled()
        dropped = report.dropped_units()
        excerpted = cut.partial_texts() if cut else ()
        try:
            novel = self._novel(dropped) if self._writing.distill_novel else []
            messages = self._messages(dropped) if self._writing.keep_dropped else {}
            texts = self._texts(excerpted) if self._writing.keep_dropped else {}
            added = self._add([*novel, *messages.values(), *texts.values()])
        except Exception as error:
            self._give_up(error, "nothing of this compaction is kept")
            return Distilled()
        handles = iter([handle for handle, _ in added[len(novel) :]])
        report.handles = {place: next(handles) for place in messages}
        self._handle_of_text |= zip(texts, handles, strict=True)
        fresh = [item.kind for item, (_, new) in zip(novel, added, strict=False) if new]
        return Distilled(len(fresh), {kind: fresh.count(kind) for kind in dict.fromkeys(fresh)})

    def handle_of(self, message: Message, text: str) -> str:
        """Where a whole text is kept that stays in the conversation in part; "" where it is not."""
        if self._writing is None or not self._writing.keep_dropped:
            return ""
        if text not in self._handle_of_text:  # its blocks were given back after the others'
            self._handle_of_text[text] = ""
            try:
                added = self._add([*self._texts([(message, text)]).values()])
            except Exception as error:
                self._give_up(error, f"a text of message {message.index} is not kept")
            else:
                self._handle_of_text[text] = added[0][0] if added else ""
        return self._handle_of_text[text]

    def record(self, stats: Stats) -> Stats:
        """Note as an episode, if asked, that this compaction took place; the figures anew."""
        if self._writing is not None and self._writing.record_episode and stats.changed:
            self._record(episode(stats))
        return stats._replace(degraded=tuple(self._degraded))

    def _record(self, text: str) -> None:
        from rehydrate.memory.items import MemoryItem

        try:
            self._add([MemoryItem(text, kind=EPISODE, **self._origin())])
        except Exception as error:
            self._give_up(error, "the episode is not recorded")

    def _add(self, items: Sequence[MemoryItem]) -> list[tuple[str, bool]]:
        """Of each item its handle, and whether it is new."""
        assert self._writing is not None
        added = list(self._writing.memory.add(items)) if items else []
        if len(added) != len(items):
            raise ValueError(f"{len(added)} answers for {len(items)} items")
        return [(str(one.handle), bool(one.created)) for one in added]

    def _give_up(self, error: Exception, lost: str) -> None:
        """Say what is lost, and write nothing more: one that waits in vain would do so again."""
        self._degraded.append(f"memory: {words_of(error, 'memory')}; {lost}")
        self._writing = None

    def _novel(self, dropped: Iterable[DroppedUnit]) -> list[MemoryItem]:
        items = []
        for index, _, coverage in dropped:
            unit = self._conversation.units[index]
            text = text_of(unit)
            if unit.is_system or not is_novel(text, coverage):
                continue
            # Without its secrets before it is cut: half a secret would not be known as one.
            whole = self._without_secrets(text)
            items.append(
                self._item(
                    cut(whole),
                    whole != text,
                    unit.messages[0],
                    kind=kind_of_unit(unit),
                    confidence=confidence_of(coverage),
                )
            )
        return items

    def _messages(self, dropped: Iterable[DroppedUnit]) -> dict[int, MemoryItem]:
        """By place, each message as it came in; those that JSON cannot say are left out."""
        items: dict[int, MemoryItem] = {}
        for index, *_ in dropped:
            for message in self._conversation.units[index].messages:
                with self._said(message):
                    whole = message_json(self._entries[message.index])
                    text = self._without_secrets_inside(whole)
                    items[message.index] = self._item(
                        text, text != whole, message, kind="message", tier="cold"
                    )
        return items

    def _texts(self, excerpted: Iterable[tuple[Message, str]]) -> dict[str, MemoryItem]:
        """By themselves, the texts; those that UTF-8 cannot say are left out."""
        items: dict[str, MemoryItem] = {}
        for message, text in excerpted:
            with self._said(message):
                items[text] = self._item(text, False, message, kind="text", tier="cold")
        return items

    def _item(self, text: str, is_redacted: bool, message: Message, **fields: Any) -> MemoryItem:
        from rehydrate.memory.items import MemoryItem, Redaction

        labels = _LABEL.finditer(text) if is_redacted else ()
        redactions = tuple([Redaction(label[1], *label.span()) for label in labels])
        return MemoryItem(text, redactions=redactions, **self._origin(message), **fields)

    @contextmanager
    def _said(self, message: Message) -> Iterator[None]:
        """What cannot be written is left out, and said."""
        try:
            yield
        except (TypeError, ValueError, RecursionError) as error:
            said = f"memory: message {message.index} is not kept: {words_of(error, 'memory')}"
            self._degraded.append(said)

    def _origin(self, message: Message | None = None) -> dict[str, Any]:
        """The provenance that all items of this conversation have in common, and the message's."""
        origin = {
            "source": f"conversation/{self._session}",
            "session": self._session,
            "tool": TOOL,
        }
        if message is None:
            return origin
        return origin | {
            "trust": _TRUST.get(message.role, _TRUST_IN_OTHERS),
            "time": _said_at(self._entries[message.index]),
            "metadata": {"role": clean(message.role), "index": message.index},
        }

    def _without_secrets(self, text: str) -> str:
        redactor = self._redactor
        return text if redactor is None else redactor(text).text

    def _without_secrets_inside(self, text: str) -> str:
        """The JSON of a message, its strings without secrets.

        Each string by itself: escapes hide where a secret begins, and labels must not break JSON.
        """
        if self._redactor is None:
            return text
        message = json.loads(text)
        found = self._redactor.inside(message)
        return text if found == message else as_json(found)

    @once
    def _redactor(self) -> Redactor | None:
        """Of a memory that takes secrets out itself."""
        assert self._writing is not None
        redactor: Redactor | None = getattr(self._writing.memory, "redactor", None)
        return redactor

    @once
    def _session(self) -> str:
        """The name that the caller gives, the transcript's own, or what stays the same while a
        conversation grows."""
        if self._writing is not None and self._writing.session:
            return self._writing.session
        for message in self._conversation.messages:
            entry = self._entries[message.index]
            own = entry.get("sessionId") if isinstance(entry, Mapping) else None
            if isinstance(own, str) and own:
                return clean(own)
        spoken = (
            message.text for message in self._conversation.messages if message.role != "system"
        )
        first = next(spoken, "").encode("utf-8", "replace")
        import hashlib  # slow to load, and wanted by few

        return hashlib.sha256(first).hexdigest()[:_SESSION_LETTERS]


def episode(stats: Stats) -> str:
    """A compaction in a line: ``48200->18600 tokens, 61% dropped as memory-covered``."""
    return (
        f"{stats.before_tokens}->{stats.after_tokens} tokens, "
        f"{stats.covered_pct:.0f}% dropped as memory-covered"
    )


def message_json(entry: Any) -> str:
    """A message as compact JSON, its keys in their order; a LangChain message as its dump.

    >>> message_json({"role": "user", "content": "שלום"})
    '{"role":"user","content":"שלום"}'
    """
    if not isinstance(entry, Mapping):
        entry = {"type": entry.type, "data": entry.model_dump(mode="json")}
    return as_json(entry)


def as_json(value: Any) -> str:
    """Compact JSON that UTF-8 can write: half a surrogate pair stays an escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if clean(text) is not text:
        text = json.dumps(value, separators=(",", ":"))
    return text


def _said_at(entry: Any) -> datetime | None:
    """The time that a transcript gives its lines."""
    from datetime import datetime

    stamp = entry.get("timestamp") if isinstance(entry, Mapping) else None
    try:
        moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
