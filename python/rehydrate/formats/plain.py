"""Plain messages: a role and a text, as in a chat log; lenient, with no tool calls to pair.

A list of texts is valid for every provider, so its provider is unknown. If it starts with the user,
it still does after compaction: one more user turn costs little where the provider does not care,
and saves the request where it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate.formats._reading import (
    Places,
    read_entries,
    read_places,
    replace_texts,
)
from rehydrate.formats.calls import Inputs, inputs_among_blocks
from rehydrate.messages import Conversation

NAME = "plain"
replace = replace_texts


def parse(entries: Sequence[Any]) -> Conversation:
    """Read role/content messages; raises InvalidMessageError for an entry that is no message."""
    return read_entries(NAME, entries)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: any plain text may be excerpted."""
    return read_places(NAME, entry, index)


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return None for each call among the blocks, which are another format's."""
    return inputs_among_blocks(entry)


def signed(_entry: Mapping[str, Any]) -> bool:
    """Return False: a text holds no signature."""
    return False


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return the entries: a text cannot be told to be thinking."""
    return list(entries)
