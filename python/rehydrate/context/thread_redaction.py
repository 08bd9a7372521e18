"""Redaction of a thread: texts that must go, wherever they are in its records.

The operations of the context store hold no texts, but spans of entries, which move with what goes
before them, and keys, which are texts in small letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehydrate import formats
from rehydrate.context.context_store.operations import MAX_KEY, Span, digest, key_of
from rehydrate.context.thread_records import Kind, Record
from rehydrate.prompt.originals import handle_of_text

REDACTED = "[redacted]"


def redacted(value: Any, texts: Sequence[str]) -> Any:
    """Return JSON values without these texts, in keys too.

    >>> redacted({"content": ["the key is hunter2"]}, ["hunter2"])
    {'content': ['the key is [redacted]']}
    """
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, REDACTED)
        return value
    if isinstance(value, dict):
        return {redacted(key, texts): redacted(one, texts) for key, one in value.items()}
    if isinstance(value, list):
        return [redacted(one, texts) for one in value]
    return value


def redacted_records(records: Sequence[Record], texts: Sequence[str]) -> list[Record]:
    """Return all records of a thread without these texts."""
    format = records[0].content["format"]  # noqa: A001
    after: list[Record] = []
    entries: list[int] = []
    """The numbers of the records of the entries there are."""
    for number, record in enumerate(records):
        content = record.content
        if record.kind is Kind.ENTRY:
            entries.append(number)
        elif record.kind is Kind.UNDO:
            entries = [each for each in entries if each < content["to"]]
        elif record.kind is Kind.OPERATIONS:
            operations = []
            for operation in content["operations"]:
                if "span" not in operation:
                    operations.append(operation)
                    continue
                at = entries[operation["span"][0]]
                was = list(_texts_of(records[at].content["entry"], format))
                now = list(_texts_of(after[at].content["entry"], format))
                operations.append(_moved(operation, was, now, texts))
            content = {**content, "operations": operations}
        after.append(record._replace(content=redacted(content, texts)))
    return after


def _moved(
    operation: dict[str, Any], was: Sequence[str], now: Sequence[str], texts: Sequence[str]
) -> dict[str, Any]:
    """Return an operation with its span where its text is now, and with its key."""
    span, key = Span(*operation["span"]), operation["key"]
    if was == now or span.piece >= min(len(was), len(now)):
        return {**operation, "key": _key_without(key, texts)}
    old, new = was[span.piece], now[span.piece]
    said = old[span.start : span.end]
    if redacted(old, texts) == new:
        start = _shared(redacted(old[: span.start], texts), new)
        end = len(new) - _shared(redacted(old[span.end :], texts)[::-1], new[::-1])
    else:  # within JSON a text is written in other characters
        start = max(0, new.find(redacted(said, texts)))
        end = start + len(redacted(said, texts))
    text = new[start:end]
    if key in (said, key_of(said)):
        key = text if key == said else key_of(text)
    moved = Span(span.entry, span.piece, start, end, digest(text))
    return {**operation, "span": list(moved), "key": _key_without(key, texts)}


def _key_without(key: str, texts: Sequence[str]) -> str:
    """Return a key without these texts, also where its end has only the beginning of one."""
    for text in texts:
        gone = key_of(text)
        key = key.replace(gone, REDACTED)
        if len(key) == MAX_KEY:
            cut = next((n for n in range(len(gone), 3, -1) if key.endswith(gone[:n])), 0)
            key = key[: len(key) - cut]
    return key


def _shared(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def texts_behind_handles(records: Sequence[Record], texts: Sequence[str]) -> list[Record]:
    """Return the records of what the handles of entries' texts lead to after the redaction."""
    format = records[0].content["format"]  # noqa: A001
    more = []
    for record in records:
        if record.kind is not Kind.ENTRY:
            continue
        for text in _texts_of(record.content["entry"], format):
            after = redacted(text, texts)
            if after != text:
                content = {"handle": handle_of_text(text), "text": after}
                more.append(Record(Kind.ORIGINAL, record.time, content))
    return more


def _texts_of(entry: Any, format: str) -> Iterator[str]:  # noqa: A002  the field's word
    for message in formats.parse([entry], format).messages:
        for piece in message.pieces:
            yield piece.text
