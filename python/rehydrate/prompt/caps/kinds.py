"""Patterns: what lines of code, searches, diffs, lists and logs look like.

All are matched against the first characters of a line, and none looks far: a hostile line costs no
more than any other.

Kinds: what a tool's result is made of, told by a look at its first and last lines.

The content decides; the tool's name only where the content leaves it open. A wrong guess costs
nothing but the choice of lines that are shown, so a content that poses as another kind gains
nothing. Of whatever length, a text is judged by the same few lines.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum

from rehydrate.prompt.caps import json_values

LINE = 200
"""Characters of a line that are looked at."""

NUMBERED = re.compile(r"[ \t]{0,8}\d{1,7}(?:→|\t| ?\| ?|: (?= )|:(?=\t))")
"""A line's number as tools that read files put it before the line."""

MATCH = re.compile(
    r"(?P<path>(?:[A-Za-z]:[\\/])?[^\s:'\"(){}\[\]<>|,;=*]{1,260})"
    r"(?P<mark>[:-])(?P<line>\d{1,7})(?P=mark)"
    r"|(?P<bare>(?:\.{0,2}/|[A-Za-z]:[\\/])?[\w@.+~-]{1,80}(?:[\\/][\w@.+~-]{1,80}){0,20}"
    r"\.\w{1,10}):(?! )(?=.)"
    r"|(?P<only>\d{1,7})[:-](?=.)"
)
"""A line that a search found: path, line number and text, path and text, or number and text."""
STAMP = re.compile(r"\[?\d{1,4}[-/:.]\d\d[-/:.]\d\d")
"""A date or a time, which looks like a number between colons too."""

DIFF = re.compile(r"diff --git |@@ -\d+(?:,\d+)? \+\d+|--- (?:a/|/)|\+\+\+ (?:b/|/)|Index: ")
PATH = re.compile(r"(?:[A-Za-z]:[\\/]|\.{0,2}/|~/)?[^\s:]{1,200}(?:[\\/][^\s:]{0,200}|\.\w{1,8})$")
BULLET = re.compile(r"\s{0,8}(?:[-*+•]|\d{1,5}[.)])\s+\S|[|].*[|]\s*$|[-dlcbps][rwxsStT-]{9}\s")
LOG = re.compile(
    r"\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d{2}[-/]\d{2}[ T]|\d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:)"
    r"|.{0,40}\b(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|NOTICE)\b"
    r"|\[\d{2,}[.:]\d+\]"
)
VERDICT = re.compile(
    r"(?i)\b\d+ (?:tests?|specs?|examples?|passed|passing|failed|failures?|failing|errors?"
    r"|warnings?|problems?|succeeded|skipped)\b|\bexit (?:code|status)\b"
    r"|\bBUILD (?:SUCCESS|FAIL)|^(?:error|FAILED|ok)\b|npm ERR!|^make(?:\[\d+\])?: "
    r"|\b(?:finished|completed|done|built|compiled) in\b|Traceback|panicked"
)
"""How a command says that it went."""

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
"""A line by which code is found again: what is defined or imported in it."""
CODE = re.compile(
    r".*[;{}]\s*$|\s*(?:return|if|for|while|else|end|elif|case|when|do|let|const|var|val|self\."
    r"|this\.)\b|\s*[)\]}]+[;,]?\s*$|.{0,80}(?:=>|->|::|\|>|==|&&|\|\||:=)"
    r"|\s*(?:#|//|/\*|\*|--|<!--|<\w+)|\s*[\w.@:]+\s*(?:=|\()\s*\S|\s*\w+:\s.{0,80},\s*$"
)
"""A line as code has many."""

TROUBLE = re.compile(
    r"(?i:\b(?:error|fatal|panic|panicked|exception|traceback|failed|failure|warn|warning|critical"
    r"|denied|refused|timed? ?out|cannot|undefined|unable|not found|segfault|assert\w*)\b)"
    r"|[a-z]Error\b|[a-z]Exception\b|\bE\d{3,4}\b|^E\s{2,}|✗|✘|❌|FAIL|ERR!"
)
"""What went wrong."""


class Kind(StrEnum):
    """What a text is made of."""

    JSON = "json"
    JSON_LINES = "json_lines"
    DIFF = "diff"
    MATCHES = "matches"
    LIST = "list"
    CODE = "code"
    LOG = "log"
    TEXT = "text"


_HEAD, _TAIL = 32_768, 8_192
_FEWEST = 3
"""Lines that show a pattern."""
_LAST = 12
_SHELLS = ("bash", "shell", "exec", "terminal", "command", "run", "taskoutput", "console", "log")
_SEARCHES = ("grep", "rg", "search", "ack")
_READERS = ("read", "view", "cat", "open", "edit", "write")


def kind_of(text: str, tool: str = "") -> Kind:
    """What the text is made of; `tool` is the name of the tool that gave it.

    >>> kind_of('[{"id": 1}, {"id": 2}]'), kind_of("src/a.py:3:import os\\nsrc/b.py:9:import os")
    (<Kind.JSON: 'json'>, <Kind.MATCHES: 'matches'>)
    """
    return Kind.JSON if json_values.is_json(text) else kind_of_lines(text, tool)


def kind_of_lines(text: str, tool: str = "") -> Kind:
    """What a text is made of that is no JSON."""
    lines = _sample(text)
    by = tool.lower()
    count = len(lines)
    if count >= _FEWEST and json_values.are_rows(lines):
        return Kind.JSON_LINES
    if _is_diff(lines):
        return Kind.DIFF
    bare = [line[found.end() :] if (found := NUMBERED.match(line)) else line for line in lines]
    is_numbered = sum(a is not b for a, b in zip(lines, bare, strict=True)) > 0.6 * count
    listed = None if is_numbered else _kind_of_rows(lines, by)
    return listed or _kind_of_files(bare, by, is_numbered)


def _kind_of_rows(lines: list[str], by: str) -> Kind | None:
    """What a search or a listing gave, if it is one."""
    matches = sum(1 for line in lines if _is_match(line))
    if matches > (0.4 if _any_of(_SEARCHES, by) else 0.7) * len(lines):
        return Kind.MATCHES
    return Kind.LIST if _is_list(lines) else None


def _kind_of_files(lines: list[str], by: str, is_numbered: bool) -> Kind:
    """What is written in a file, or by a program."""
    count = len(lines)
    if sum(1 for line in lines if LOG.match(line)) > 0.3 * count:
        return Kind.LOG
    signatures = sum(1 for line in lines if SIGNATURE.match(line))
    marks = sum(1 for line in lines if CODE.match(line))
    wanted = 0.25 if is_numbered or _any_of(_READERS, by) else 0.5
    is_code = signatures > 0.02 * count and marks + signatures > wanted * count
    if is_code or (is_numbered and marks > 0.5 * count):
        return Kind.CODE
    is_log = _any_of(_SHELLS, by) and _ends_in_a_verdict(lines)
    return Kind.LOG if is_log else Kind.TEXT


def _sample(text: str) -> list[str]:
    """Lines from the beginning and the end, each cut, the empty ones left out."""
    parts = text[:_HEAD].split("\n")
    if len(text) > _HEAD:
        parts = parts[:-1] or parts
        parts += text[max(_HEAD, len(text) - _TAIL) :].split("\n")[1:]
    return [part[:LINE] for part in parts if part and not part.isspace()]


def _any_of(names: tuple[str, ...], tool: str) -> bool:
    return any(name in tool for name in names)


def _ends_in_a_verdict(lines: list[str]) -> bool:
    """Whether the output of a command says at its end how it went: then the end is what counts."""
    return any(VERDICT.search(line) for line in (*lines[:2], *lines[-_LAST:]))


def _is_match(line: str) -> bool:
    return line == "--" or (MATCH.match(line) is not None and not STAMP.match(line))


def _is_diff(lines: list[str]) -> bool:
    heads = Counter(found[0][:3] for line in lines if (found := DIFF.match(line)))
    if not heads["@@ "] and not heads["dif"]:
        return False
    body = sum(1 for line in lines if line[0] in "+- @\\" or DIFF.match(line))
    return body > 0.7 * len(lines)


def _is_list(lines: list[str]) -> bool:
    """Whether nearly every line is a path, a bullet, a row of a table, or so many fields."""
    count = len(lines)
    if count < _FEWEST:
        return False
    if sum(1 for line in lines if PATH.match(line)) > 0.8 * count:
        return True
    if sum(1 for line in lines if BULLET.match(line)) > 0.8 * count:
        return True
    for separator in ("\t", ",", ";", "|"):
        fields = Counter(line.count(separator) for line in lines)
        columns, rows = fields.most_common(1)[0]
        enough = 1 if separator == "\t" else 2
        if columns >= enough and rows > 0.9 * count:
            return True
    return False
