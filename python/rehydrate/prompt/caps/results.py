"""Tool results in a history: their texts, and their kinds, such as log, diff or code."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import formats
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.caps import json_values

if TYPE_CHECKING:
    from rehydrate.formats._reading import Path
    from rehydrate.prompt.entries import History


LINE_CHARS = 200
"""Characters of a line that are matched against patterns."""

NUMBERED = re.compile(r"[ \t]{0,8}\d{1,7}(?:→|\t| ?\| ?|: (?= )|:(?=\t))")
"""A line number, as tools that read files put it before a line."""

MATCH = re.compile(
    r"(?P<path>(?:[A-Za-z]:[\\/])?[^\s:'\"(){}\[\]<>|,;=*]{1,260})"
    r"(?P<mark>[:-])(?P<line>\d{1,7})(?P=mark)"
    r"|(?P<bare>(?:\.{0,2}/|[A-Za-z]:[\\/])?[\w@.+~-]{1,80}(?:[\\/][\w@.+~-]{1,80}){0,20}"
    r"\.\w{1,10}):(?! )(?=.)"
    r"|(?P<only>\d{1,7})[:-](?=.)"
)
"""A line of a search result: path, line number and text; path and text; or number and text."""
TIMESTAMP = re.compile(r"\[?\d{1,4}[-/:.]\d\d[-/:.]\d\d")
"""A date or a time: it looks like a line number between colons too."""

DIFF = re.compile(r"diff --git |@@ -\d+(?:,\d+)? \+\d+|--- (?:a/|/)|\+\+\+ (?:b/|/)|Index: ")
PATH = re.compile(r"(?:[A-Za-z]:[\\/]|\.{0,2}/|~/)?[^\s:]{1,200}(?:[\\/][^\s:]{0,200}|\.\w{1,8})$")
BULLET = re.compile(r"\s{0,8}(?:[-*+•]|\d{1,5}[.)])\s+\S|[|].*[|]\s*$|[-dlcbps][rwxsStT-]{9}\s")
LOG = re.compile(
    r"\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d{2}[-/]\d{2}[ T]|\d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:)"
    r"|.{0,40}\b(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|NOTICE)\b"
    r"|\[\d{2,}[.:]\d+\]"
)
OUTCOME = re.compile(
    r"(?i)\b\d+ (?:tests?|specs?|examples?|passed|passing|failed|failures?|failing|errors?"
    r"|warnings?|problems?|succeeded|skipped)\b|\bexit (?:code|status)\b"
    r"|\bBUILD (?:SUCCESS|FAIL)|^(?:error|FAILED|ok)\b|npm ERR!|^make(?:\[\d+\])?: "
    r"|\b(?:finished|completed|done|built|compiled) in\b|Traceback|panicked"
)
"""A line by which a command tells whether it succeeded."""

SIGNATURE = re.compile(
    r"\s{0,24}(?:(?:export|default|pub(?:\([^)]{0,20}\))?|public|private|protected|internal|static"
    r"|final|abstract|async|unsafe|extern|override|virtual|inline|sealed|partial|open|data"
    r"|declare)\s+){0,5}"
    r"(?:def|defp|defmodule|defmacro|defstruct|defimpl|defprotocol|class|fn|func|fun|function\*?"
    r"|interface|struct|enum|trait|impl|type|module|mod|namespace|package|record|object|protocol"
    r"|extension|union|macro_rules!|describe|context|test|it|sub|proc|procedure|template|CREATE"
    r"|create_table|schema|service|message|rpc)\b[\s(<\"'!]"
    r"|\s{0,8}(?:from\s+[\w.]+\s+import|import|use|using|alias|require|include|#include"
    r"|@[A-Za-z])\b"
    r"|\s{0,12}(?:export\s+)?(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:\(|function)"
    r"|(?:[\w:<>,*&~]+\s+){1,4}[\w:~]+\s*\([^;]{0,200}$"
    r"|[.#@]?[\w-]+[^{;]{0,80}\{\s*$"
)
"""A line of code that defines or imports something."""
CODE = re.compile(
    r".*[;{}]\s*$|\s*(?:return|if|for|while|else|end|elif|case|when|do|let|const|var|val|self\."
    r"|this\.)\b|\s*[)\]}]+[;,]?\s*$|.{0,80}(?:=>|->|::|\|>|==|&&|\|\||:=)"
    r"|\s*(?:#|//|/\*|\*|--|<!--|<\w+)|\s*[\w.@:]+\s*(?:=|\()\s*\S|\s*\w+:\s.{0,80},\s*$"
)
"""A line of a shape that is common in code."""

PROBLEM = re.compile(
    r"(?i:\b(?:error|fatal|panic|panicked|exception|traceback|failed|failure|warn|warning|critical"
    r"|denied|refused|timed? ?out|cannot|undefined|unable|not found|segfault|assert\w*)\b)"
    r"|[a-z]Error\b|[a-z]Exception\b|\bE\d{3,4}\b|^E\s{2,}|✗|✘|❌|FAIL|ERR!"
)
"""A line about an error or a warning."""


class Kind(StrEnum):
    """The kind of a text."""

    JSON = "json"
    JSON_LINES = "json_lines"
    DIFF = "diff"
    MATCHES = "matches"
    LIST = "list"
    CODE = "code"
    LOG = "log"
    TEXT = "text"


_HEAD_CHARS, _TAIL_CHARS = 32_768, 8_192
"""Characters at the start and at the end that are read."""
_MIN_LINES = 3
"""Lines that a list needs."""
_FIRST_LINES, _LAST_LINES = 2, 12
"""Lines in which a command's outcome is searched for."""
_SHELLS = ("bash", "shell", "exec", "terminal", "command", "run", "taskoutput", "console", "log")
_SEARCHES = ("grep", "rg", "search", "ack")
_READERS = ("read", "view", "cat", "open", "edit", "write")


def kind_of(text: str, tool: str = "") -> Kind:
    """Return the kind of a text that the tool with this name returned.

    >>> kind_of('[{"id": 1}, {"id": 2}]'), kind_of("src/a.py:3:import os\\nsrc/b.py:9:import os")
    (<Kind.JSON: 'json'>, <Kind.MATCHES: 'matches'>)
    """
    return Kind.JSON if json_values.is_json(text) else kind_of_lines(text, tool)


def kind_of_lines(text: str, tool: str = "") -> Kind:
    """Return the kind of a text that is not JSON."""
    lines = _sample(text)
    tool = tool.lower()
    count = len(lines)
    if count >= _MIN_LINES and json_values.are_rows(lines):
        return Kind.JSON_LINES
    if _is_diff(lines):
        return Kind.DIFF
    bare = [line[found.end() :] if (found := NUMBERED.match(line)) else line for line in lines]
    is_numbered = sum(a is not b for a, b in zip(lines, bare, strict=True)) > 0.6 * count
    listed = None if is_numbered else _kind_of_rows(lines, tool)
    return listed or _kind_of_content(bare, tool, is_numbered)


def _kind_of_rows(lines: list[str], tool: str) -> Kind | None:
    """Return the kind of a search result or a list; None for other texts."""
    matches = sum(1 for line in lines if _is_match(line))
    if matches > (0.4 if _is_one_of(_SEARCHES, tool) else 0.7) * len(lines):
        return Kind.MATCHES
    return Kind.LIST if _is_list(lines) else None


def _kind_of_content(lines: list[str], tool: str, is_numbered: bool) -> Kind:
    """Return the kind of a file's content or a program's output."""
    count = len(lines)
    if sum(1 for line in lines if LOG.match(line)) > 0.3 * count:
        return Kind.LOG
    signatures = sum(1 for line in lines if SIGNATURE.match(line))
    code = sum(1 for line in lines if CODE.match(line))
    min_share = 0.25 if is_numbered or _is_one_of(_READERS, tool) else 0.5
    is_code = signatures > 0.02 * count and code + signatures > min_share * count
    if is_code or (is_numbered and code > 0.5 * count):
        return Kind.CODE
    is_log = _is_one_of(_SHELLS, tool) and _has_outcome(lines)
    return Kind.LOG if is_log else Kind.TEXT


def _sample(text: str) -> list[str]:
    """Return lines from the start and the end, each cut, without the empty ones."""
    lines = text[:_HEAD_CHARS].split("\n")
    if len(text) > _HEAD_CHARS:
        lines = lines[:-1] or lines
        lines += text[max(_HEAD_CHARS, len(text) - _TAIL_CHARS) :].split("\n")[1:]
    return [line[:LINE_CHARS] for line in lines if line and not line.isspace()]


def _is_one_of(names: tuple[str, ...], tool: str) -> bool:
    return any(name in tool for name in names)


def _has_outcome(lines: list[str]) -> bool:
    """Whether the output of a command tells its outcome: then its last lines matter most."""
    return any(OUTCOME.search(line) for line in (*lines[:_FIRST_LINES], *lines[-_LAST_LINES:]))


def _is_match(line: str) -> bool:
    return line == "--" or (MATCH.match(line) is not None and not TIMESTAMP.match(line))


def _is_diff(lines: list[str]) -> bool:
    heads = Counter(found[0][:3] for line in lines if (found := DIFF.match(line)))
    if not heads["@@ "] and not heads["dif"]:
        return False
    body = sum(1 for line in lines if line[0] in "+- @\\" or DIFF.match(line))
    return body > 0.7 * len(lines)


def _is_list(lines: list[str]) -> bool:
    """Whether nearly all lines are paths, bullets, or rows with the same number of fields."""
    count = len(lines)
    if count < _MIN_LINES:
        return False
    if sum(1 for line in lines if PATH.match(line)) > 0.8 * count:
        return True
    if sum(1 for line in lines if BULLET.match(line)) > 0.8 * count:
        return True
    for separator in ("\t", ",", ";", "|"):
        fields = Counter(line.count(separator) for line in lines)
        separators, rows = fields.most_common(1)[0]
        min_separators = 1 if separator == "\t" else 2
        if separators >= min_separators and rows > 0.9 * count:
            return True
    return False


_ID_KEYS = ("tool_use_id", "tool_call_id", "call_id")


class Text(NamedTuple):
    """A text of a tool result that may be shown in part."""

    path: Path
    text: str
    tool_call_id: str
    """The id of the call that it answers; "" if unknown."""
    tool: str
    """The name of the tool; "" if unknown."""
    piece_index: int
    """Its index among the pieces of the message."""


class Results(NamedTuple):
    """The texts of the tool results in one entry."""

    position: int
    """Position of the entry in the history."""
    texts: tuple[Text, ...]


class ToolNames:
    """The names of the called tools, by the ids of the calls."""

    def __init__(self) -> None:
        """Start with none."""
        self._names: dict[str, str] = {}

    @classmethod
    def of(cls, messages: Iterable[Message], last: int) -> ToolNames:
        """Return those of the messages up to the one of this index."""
        names = cls()
        for message in messages:
            if message.index > last:
                break
            names.add(message)
        return names

    def add(self, message: Message) -> None:
        """Add the calls of a message."""
        if not message.calls:
            return
        inputs = [piece.text for piece in message.pieces if piece.kind == PieceKind.TOOL_INPUT]
        if len(inputs) == len(message.calls):
            for tool_call_id, text in zip(message.calls, inputs, strict=True):
                self._names[tool_call_id] = sys.intern(text[:200].partition(" ")[0])

    def __getitem__(self, tool_call_id: str) -> str:
        """Return the name of the tool; "" for an unknown call."""
        return self._names.get(tool_call_id, "")


def results_of(
    history: History, start: int, is_long: Callable[[int, Sequence[str]], bool]
) -> Iterator[Results]:
    """Yield the texts of each entry whose results are long, from the position ``start`` on.

    ``is_long`` tells this from the position of the entry and the texts of its results. Texts that
    must not change are left out: media, blocks with citations, results of a provider's own tools.
    """
    tools: ToolNames | None = None
    for message in history.messages_from(start):
        if tools is not None:
            tools.add(message)
        found = [text for text, kind in message.pieces if kind is PieceKind.TOOL_RESULT]
        if not (found and is_long(message.index, found)):
            continue
        if tools is None:  # few histories have a long result among the new entries
            tools = ToolNames.of(history.messages, message.index)
        texts = texts_of(message, history.entries[message.index], history.format, tools)
        if texts:
            yield Results(message.index, texts)


def texts_of(
    message: Message,
    entry: Any,
    format: str,  # noqa: A002
    tools: ToolNames,
) -> tuple[Text, ...]:
    """Return the texts of the tool results in one entry."""
    texts = []
    paths = formats.FORMATS[format].places(entry, message.index)
    for index, (piece, path) in enumerate(zip(message.pieces, paths, strict=True)):
        if path is None or piece.kind != PieceKind.TOOL_RESULT:
            continue
        tool_call_id = _tool_call_id(entry, path)
        if not tool_call_id and len(message.answers) == 1:
            (tool_call_id,) = message.answers
        texts.append(Text(path, piece.text, tool_call_id, tools[tool_call_id], index))
    return tuple(texts)


def _tool_call_id(entry: Any, path: Path) -> str:
    """Return the call's id from the innermost block on the path that has one; "" without one."""
    found = ""
    for step in ((), *path):
        if step != ():
            if not isinstance(entry, (Mapping, list, tuple)):
                entry = getattr(entry, str(step))
            else:
                entry = entry[step]  # type: ignore[index]
        for key in _ID_KEYS:
            id_ = entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)
            if isinstance(id_, str):
                found = id_
    return found
