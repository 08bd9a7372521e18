"""Long strings in the inputs of tool calls: where they stand, and inputs with other strings.

A format says with `inputs(entry)` what stands in the entry's calls, one `Input` for each piece of
kind TOOL_INPUT, in their order, and None for a call that must stay as the model wrote it. An input
is an object, a string of JSON (OpenAI's `arguments`) or text of the tool's own. Of a string of JSON
only the strings inside change: numbers, the order of keys and white space stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rehydrate.formats._excerpting import Path
from rehydrate.formats._reading import type_of

__all__ = ["Input", "Inputs", "at_path", "input_texts", "is_signed", "with_texts"]

_MAX_DEPTH = 12
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_COLON = re.compile(r"[ \t\n\r]*:")


class Input(NamedTuple):
    """The input of one call."""

    call: str | None
    """The id of the call, by which its result is known."""
    name: object
    value: object
    paths: tuple[Path, ...]
    """Where it stands in the entry: some messages say one call in several places."""
    is_text: bool = False
    """Whether it is text of the tool's own, and no JSON."""


Inputs = list[Input | None]
"""Per piece of kind TOOL_INPUT, what it was read of; None where it must stay as it is."""


def input_texts(value: object, *, is_text: bool = False) -> Iterator[str]:
    """Every string in an input that is no key, in reading order.

    >>> list(input_texts({"path": "a.py", "edits": [{"new": "x = 1"}]}))
    ['a.py', 'x = 1']
    >>> list(input_texts('{"path": "a.py", "n": 1e3}')), list(input_texts("no JSON", is_text=True))
    (['a.py'], ['no JSON'])
    """
    if not isinstance(value, str):
        yield from _strings(value, 0)
    elif is_text:
        yield value
    else:
        for match in _tokens(value):
            yield json.loads(match[0])


def with_texts(value: Any, texts: Mapping[str, str]) -> Any:
    """The input with other strings in the place of those that are keys of `texts`.

    What does not change is the very same object, or stays as it was written.

    >>> with_texts('{"n": 1e3, "old": "a", "new": "b"}', {"b": 'line\\n"2"'})
    '{"n": 1e3, "old": "a", "new": "line\\\\n\\\\"2\\\\""}'
    >>> with_texts({"new": "b"}, {"b": "c"})
    {'new': 'c'}
    """
    if not isinstance(value, str):
        return _with_strings(value, texts, 0)
    if value in texts:
        return texts[value]
    out: list[str] = []
    at = 0
    for match in _tokens(value):
        text = json.loads(match[0])
        if text in texts:
            out += [value[at : match.start()], _as_token(texts[text], match[0])]
            at = match.end()
    return "".join([*out, value[at:]]) if at else value


def at_path(entry: Any, path: Path) -> Any:
    """What stands at this path of an entry."""
    for step in path:
        if isinstance(entry, (Mapping, list, tuple)):
            entry = entry[step]  # type: ignore[index]
        else:
            entry = getattr(entry, str(step))
    return entry


_PROOFS = ("signature", "encrypted", "thought", "thinking", "reasoning")
_UNREAD = frozenset({"input", "arguments", "args", "text", "usage"})


def is_signed(value: object, depth: int = 0) -> bool:
    """Whether a message, or a content, holds a thought or a proof that goes with its calls.

    A provider may compare what stands beside it with what the model wrote.

    >>> is_signed([{"type": "redacted_thinking", "data": "b3Bh"}])
    True
    >>> is_signed({"tool_calls": [{"extra_content": {"google": {"thought_signature": "c2ln"}}}]})
    True
    >>> is_signed([{"type": "tool_use", "input": {"signature": "Ada"}}])
    False
    """
    if depth > _MAX_DEPTH:
        return True
    if isinstance(value, (list, tuple)):
        return any(is_signed(item, depth + 1) for item in value)
    if not isinstance(value, Mapping):
        return False
    if any(proof in type_of(value) for proof in _PROOFS):
        return True
    return any(
        bool(item) and (any(proof in str(key) for proof in _PROOFS) or is_signed(item, depth + 1))
        for key, item in value.items()
        if key not in _UNREAD
    )


def _strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            for item in value:
                yield from _strings(item, depth + 1)


def _with_strings(value: Any, texts: Mapping[str, str], depth: int) -> Any:
    if isinstance(value, str):
        return texts.get(value, value)
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        rest = {key: _with_strings(item, texts, depth + 1) for key, item in value.items()}
        return value if all(rest[key] is value[key] for key in rest) else rest
    if isinstance(value, (list, tuple)):
        items = [_with_strings(item, texts, depth + 1) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _tokens(source: str) -> Iterator[re.Match[str]]:
    """The strings of a text of JSON that are no keys; none where it is no object or list."""
    try:
        if not isinstance(json.loads(source), (dict, list)):
            return
    except (ValueError, RecursionError):
        return
    for match in _STRING.finditer(source):
        if not _COLON.match(source, match.end()):
            yield match


def _as_token(text: str, token: str) -> str:
    """A string as JSON, in ASCII where the one in whose place it stands is."""
    return json.dumps(text, ensure_ascii=token.isascii())
