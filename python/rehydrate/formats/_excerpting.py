"""Texts inside an entry: where each piece of it stands, and the entry with some of them replaced.

A format says with `places(entry, index)` where the text of each piece stands that `parse` reads of
the entry: a path of keys and indices, or None for a text that must stay as it is. `replace` makes
an entry with other texts in some of these places. It copies along the paths and nothing else: what
is not on the way to a new text is the very same object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate.formats._reading import readable_texts, type_of

__all__ = ["Path", "Places", "content_places", "replace"]

Path = tuple[str | int, ...]
"""Keys and indices, from the entry to the string."""

Places = list[Path | None]
"""Per piece of an entry, where its text stands; None where it must stay as it is."""


def replace(entry: Any, texts: Mapping[Path, Any]) -> Any:
    """The entry with these texts, or inputs, in their places; the entry itself is never changed.

    >>> entry = {"role": "user", "content": [{"type": "text", "text": "long"}]}
    >>> replace(entry, {("content", 0, "text"): "short"})
    {'role': 'user', 'content': [{'type': 'text', 'text': 'short'}]}
    >>> entry["content"][0]["text"]
    'long'
    """
    if () in texts:
        return texts[()]
    inner: dict[str | int, dict[Path, Any]] = {}
    for (step, *rest), text in texts.items():
        inner.setdefault(step, {})[tuple(rest)] = text
    copy: Any = dict(entry) if isinstance(entry, Mapping) else list(entry)
    for step, below in inner.items():
        copy[step] = replace(copy[step], below)
    return tuple(copy) if isinstance(entry, tuple) else copy


def _part_places(part: Mapping[str, Any], path: Path) -> Places:
    """Places of the pieces of a part that `readable_texts` reads: one, where it is a plain text."""
    texts = list(readable_texts(part))
    is_plain = type_of(part) == "text" and texts == [part.get("text")]
    return [(*path, "text")] if is_plain else [None] * len(texts)


def content_places(content: object, path: Path, media: frozenset[str] = frozenset()) -> Places:
    """Places of a content that is a string, or a list of strings and parts, which are read by
    `readable_texts` unless their type is one of `media`."""
    if isinstance(content, str):
        return [path] if content else []
    if not isinstance(content, Sequence):
        return []
    places: Places = []
    for place, part in enumerate(content):
        if isinstance(part, str):
            places += [(*path, place)] if part else []
        else:
            places += [] if type_of(part) in media else _part_places(part, (*path, place))
    return places
