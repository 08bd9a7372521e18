"""What a compaction writes to memory: what was novel, what was dropped, and that it took place.

Everything that one compaction drops is written in one transaction, and before the caller learns
what was dropped. A write that fails never fails the call: `degraded` says what was lost with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._text import words_of
from rehydrate.compact.result import Distilled, once
from rehydrate.compact.signals import COVERED, clean, text_to_remember
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation, Message, PieceKind, Unit

if TYPE_CHECKING:
    from datetime import datetime

    from rehydrate.compact.excerpts import Cut
    from rehydrate.compact.report import Decision, DroppedUnit
    from rehydrate.compact.result import Stats
    from rehydrate.compact.signals import WritableMemory
    from rehydrate.memory.items import MemoryItem
    from rehydrate.memory.redaction import Redactor


TOOL = "compact_context"
"""What brought these memories in, as their provenance says."""

_TRUST = {"user": 1.0, "assistant": 0.8}
_TRUST_IN_OTHERS = 0.5
"""What a tool returned may be anybody's words."""

_THREAD_LETTERS = 16
_LABEL = re.compile(r"\[redacted:(\w+)\]")


@dataclass(frozen=True, slots=True)
class Archive:
    """What `compact_context` writes to its memory before it drops messages.

    Secrets are taken out first. Raises InvalidArgumentError for a value outside its limits.

    >>> Archive(novel=True)
    Archive(dropped=True, novel=True, episode=False, thread=None)
    """

    dropped: bool = True
    """Every dropped message whole, as JSON, under the handle in ``Compaction.dropped``; and every
    text that is kept in part, under the handle in its marks."""
    novel: bool = False
    """The beginning of each dropped unit that memory does not hold yet, as a memory of its own."""
    episode: bool = False
    """One line that says the compaction took place."""
    thread: str | None = None
    """The conversation's name in memory. None: its own id, or a hash of its first message."""

    def __post_init__(self) -> None:
        """Refuse what is no archive."""
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
            isinstance(thread, str) and thread and clean(thread) == thread
        ):
            raise InvalidArgumentError(
                f"Archive: thread is {thread!r}; pass a name of the conversation, or None to take "
                "its own"
            )


class Writing(NamedTuple):
    """Where a compaction writes, and what."""

    memory: WritableMemory
    archive: Archive

    def writer(self, conversation: Conversation, entries: Sequence[Any]) -> Writer:
        """The writer of one compaction."""
        return Writer(self, conversation, entries)


class Written(NamedTuple):
    """What one compaction wrote."""

    distilled: Distilled = Distilled()
    handles: Mapping[int, str] = {}
    """By the index of a dropped message, where memory has it."""


class Writer:
    """The writes of one compaction, with the conversation as their provenance."""

    def __init__(
        self, writing: Writing, conversation: Conversation, entries: Sequence[Any]
    ) -> None:
        """Take what is asked and the list that came in; nothing is written yet."""
        self._writing: Writing | None = writing  # None: it was given up
        self._conversation = conversation
        self._entries = entries
        self.problems: list[str] = []
        """What could not be written, and why."""
        self._handle_of_text: dict[str, str] = {}

    def write(self, decision: Decision, cut: Cut | None) -> Written:
        """Write what is novel, what is dropped, and the whole texts that are kept in part."""
        if self._writing is None:
            return Written()
        dropped = decision.dropped_units
        excerpted = cut.partial_texts() if cut else ()
        try:
            novel = self._novel(dropped) if self._writing.archive.novel else []
            messages = self._messages(dropped) if self._writing.archive.dropped else {}
            texts = self._texts(excerpted) if self._writing.archive.dropped else {}
            added = self._add([*novel, *messages.values(), *texts.values()])
        except Exception as error:
            self._give_up(error, "nothing of this compaction is kept")
            return Written()
        handles = iter([handle for handle, _ in added[len(novel) :]])
        handle_of = {index: next(handles) for index in messages}
        self._handle_of_text |= zip(texts, handles, strict=True)
        fresh = [item.kind for item, (_, new) in zip(novel, added, strict=False) if new]
        kinds = {kind: fresh.count(kind) for kind in dict.fromkeys(fresh)}
        return Written(Distilled(len(fresh), kinds), handle_of)

    def handle_of(self, message: Message, text: str) -> str:
        """Where a whole text is kept that stays in the conversation in part; "" where it is not."""
        if self._writing is None or not self._writing.archive.dropped:
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
        """Note as an episode, if asked, that this compaction took place; return its figures."""
        if self._writing is None or not self._writing.archive.episode or not stats.changed:
            return stats
        before = len(self.problems)
        self._record(episode(stats))
        return stats._replace(degraded=(*stats.degraded, *self.problems[before:]))

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
        self.problems.append(f"memory: {words_of(error, 'memory')}; {lost}")
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
            self.problems.append(said)

    def _origin(self, message: Message | None = None) -> dict[str, Any]:
        """The provenance that all items of this conversation have in common, and the message's."""
        origin = {
            "source": f"conversation/{self._thread}",
            "thread": self._thread,
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
    def _thread(self) -> str:
        """The name that the caller gives, the transcript's own, or what stays the same while a
        conversation grows."""
        if self._writing is not None and self._writing.archive.thread:
            return self._writing.archive.thread
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

        return hashlib.sha256(first).hexdigest()[:_THREAD_LETTERS]


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


LEAST_BYTES = 40
"""A shorter text says too little to be remembered by itself."""
MOST_BYTES = 600
"""Of a longer one the beginning is remembered."""

EPISODE = "episode"
_ASSISTANT_ONLY = "wisdom"
_CUES = {
    "correction": r"""
        (?: ^ | [.!?\n] \s* ) (?: no | nope | wait | actually ) \b (?! \s+ (?: problem | worries ) )
        | \b correction \b | \b i \s meant \b | \b not \s what \s i \b
        | \b that (?: 's | \s is | \s was ) \s (?: not | wrong | incorrect ) \b
        | \b you (?: 're | \s are | \s were ) \s (?: wrong | mistaken ) \b
        | \b should (?: n't | \s not ) \s have \b | \b (?: my | a ) \s mistake \b
        """,
    "preference": r"""
        \b prefer (?: s | red | ence | ences | ably )? \b | \b favou?rites? \b
        | \b i \s (?: really \s | do \s )? (?: like | love | hate | dislike ) \b
        | \b i \s (?: do \s not | don't ) \s (?: like | want ) \b
        | \b i (?: 'd | \s would ) \s rather \b
        | \b please \s (?: always | never | do \s not | don't | avoid ) \b
        """,
    "habit": r"""
        \b (?: always | usually | typically | normally | routinely | never ) \b
        | \b (?: every | each ) \s (?: time | day | morning | evening | night | week | month ) \b
        | \b tend (?: s )? \s to \b | \b as \s a \s rule \b | \b whenever \b
        """,
    "wisdom": r"""
        \b lessons? \b | \b i (?: 've )? \s (?: learned | learnt ) \b | \b insight \b
        | \b (?: it \s )? turn (?: s | ed ) \s out \b | \b root \s cause \b
        | \b the \s (?: key | trick | reason | cause | problem | issue | bug | fix | solution )
          \s (?: is | was ) \b
        | \b rule \s of \s thumb \b | \b best \s practice \b | \b takeaway \b
        | \b (?: remember | note ) \s (?: to | that ) \b
        """,
}


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compiled when first asked for: `import rehydrate` stays light."""
    return tuple((kind, re.compile(cue, re.IGNORECASE | re.VERBOSE)) for kind, cue in _CUES.items())


def kind_of(text: str, *, is_assistant: bool) -> str:
    """What kind of memory a text is, by the first cue that it holds.

    >>> kind_of("No, the port is 8443.", is_assistant=False)
    'correction'
    >>> kind_of("The root cause is a stale lock.", is_assistant=True)
    'wisdom'
    >>> kind_of("The root cause is a stale lock.", is_assistant=False)
    'episode'
    """
    straight = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for kind, cue in _patterns():
        if (is_assistant or kind != _ASSISTANT_ONLY) and cue.search(straight):
            return kind
    return EPISODE


def confidence_of(coverage: float) -> float:
    """How sure a distilled memory is: the newer to memory, the surer."""
    return 0.5 + 0.25 * (1 - coverage)


def text_of(unit: Unit) -> str:
    """What a unit says and does, in one text."""
    texts = [text_to_remember(message) for message in unit.messages]
    return clean("\n".join(text for text in texts if text)).strip()


def kind_of_unit(unit: Unit) -> str:
    """What kind of memory a unit is, by what was said in the beginning of it.

    What a tool was asked and what it returned is nobody's wish, habit or wisdom.
    """
    spoken = [
        piece.text
        for message in unit.messages
        for piece in message.pieces
        if piece.kind == PieceKind.TEXT
    ]
    said = cut(clean("\n".join(spoken)).strip())
    return kind_of(said, is_assistant=unit.role == "assistant")


def is_novel(text: str, coverage: float) -> bool:
    """Whether a text is worth a memory: it is long enough, and memory does not hold it yet."""
    return coverage < COVERED and len(text.encode()) >= LEAST_BYTES


def cut(text: str) -> str:
    """The first 600 bytes, ending with a whole character.

    >>> len(cut("é" * 400)), cut("short")
    (300, 'short')
    """
    return text.encode()[:MOST_BYTES].decode(errors="ignore")
