"""Hooks in a settings file, put in and taken out as text: every other byte stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rehydrate.errors import InvalidArgumentError

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"
_INDENT = "  "


class Part(NamedTuple):
    """A member of an object or an element of an array, and where it stands."""

    name: str
    """Of a member."""
    start: int
    """Where it begins, with its name."""
    value_start: int
    end: int
    value: Any


def read_settings(text: str, name: str) -> dict[str, Any]:
    """Return the settings; raises InvalidArgumentError for what is no JSON object with hooks.

    >>> read_settings('{"model": "opus"}', "settings.json")
    {'model': 'opus'}
    """
    try:
        settings = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{name} is no JSON ({error}); correct it, then try again: nothing was changed"
        ) from None
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise InvalidArgumentError(
            f"{name} is JSON, but no object whose hooks are lists by event; correct it, then try "
            "again: nothing was changed"
        )
    return settings


def with_hooks(text: str, groups: Mapping[str, Any]) -> str:
    """Return the settings with a group of hooks more for each event.

    >>> print(with_hooks('{"model": "opus"}', {"Stop": {"hooks": []}}))
    {"model": "opus",
      "hooks": {
        "Stop": [
          {
            "hooks": []
          }
        ]
      }}
    """
    if not text.strip():
        text = "{}\n"
    for event, group in groups.items():
        hooks = _member(text, _start_of(text), "hooks")
        if hooks is None:
            text = _added(text, _start_of(text), "hooks", {event: [group]}, 1)
            continue
        own = _member(text, hooks.value_start, event)
        if own is None:
            text = _added(text, hooks.value_start, event, [group], 2)
        else:
            text = _added(text, own.value_start, None, group, 3)
    return text


def without_hooks(text: str, is_ours: Callable[[Any], bool], keeps: Callable[[str], bool]) -> str:
    """Return the settings without our groups of hooks.

    An event, and the hooks, that are empty then are left out too, but for those that ``keeps`` says
    were there before: an event by its name, the hooks by "".
    """
    while (hooks := _member(text, _start_of(text), "hooks")) is not None:
        found = next(_ours(text, hooks, is_ours, keeps), None)
        if found is None:
            if not hooks.value and not keeps(""):
                text = _removed(text, _start_of(text), hooks)
            break
        text = _removed(text, *found)
    return text


def _ours(
    text: str, hooks: Part, is_ours: Callable[[Any], bool], keeps: Callable[[str], bool]
) -> Iterator[tuple[int, Part]]:
    """Yield what is to go, each with where its list or object begins."""
    for event in _parts(text, hooks.value_start):
        groups = list(_parts(text, event.value_start))
        ours = [group for group in groups if is_ours(group.value)]
        if ours and len(ours) == len(groups) and not keeps(event.name):
            yield hooks.value_start, event
        elif ours:
            yield event.value_start, ours[0]


def _start_of(text: str) -> int:
    return _skipped(text, 0)


def _member(text: str, start: int, name: str) -> Part | None:
    """Return a member of the object that begins there; the last of its name counts, as for JSON."""
    found = None
    for part in _parts(text, start):
        if part.name == name:
            found = part
    return found


def _parts(text: str, start: int) -> Iterator[Part]:
    """Yield the parts of the object or the array that begins there; the text is valid."""
    is_object = text[start] == "{"
    at = _skipped(text, start + 1)
    while text[at] not in "}]":
        begin, name = at, ""
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            at = _skipped(text, _skipped(text, at) + 1)  # behind the colon
        value, end = _DECODER.raw_decode(text, at)
        yield Part(name, begin, at, end, value)
        at = _skipped(text, end)
        if text[at] == ",":
            at = _skipped(text, at + 1)


def _added(text: str, start: int, name: str | None, value: Any, depth: int) -> str:
    """Return the text with one more part at the end of the object or array that begins there."""
    parts = list(_parts(text, start))
    indent = "\n" + depth * _INDENT
    whole = json.dumps(value, indent=len(_INDENT), ensure_ascii=True).replace("\n", indent)
    part = whole if name is None else f"{json.dumps(name)}: {whole}"
    if parts:
        end = parts[-1].end
        return f"{text[:end]},{indent}{part}{text[end:]}"
    end = _skipped(text, start + 1)
    return f"{text[: start + 1]}{indent}{part}{indent[: -len(_INDENT)]}{text[end:]}"


def _removed(text: str, start: int, part: Part) -> str:
    """Return the text without the part, and without the comma that parted it."""
    parts = list(_parts(text, start))
    number = [each.start for each in parts].index(part.start)
    if len(parts) == 1:
        return text[: start + 1] + text[_skipped(text, part.end) :]
    if number:  # from the end of the one before, so that its layout goes too
        return text[: parts[number - 1].end] + text[part.end :]
    return text[: part.start] + text[parts[1].start :]


def _skipped(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
