"""Redaction of a thread: texts that must go, wherever they stand in its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehydrate import formats
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


def _texts_of(entry: Any, format: str) -> Iterator[str]:  # noqa: A002
    for message in formats.parse([entry], format).messages:
        for piece in message.pieces:
            yield piece.text
