"""Kinds: what a tool's result is made of, told by a look at its first and last lines.

The content decides; the tool's name only where the content leaves it open. A wrong guess costs
nothing but the choice of lines that are shown, so a content that poses as another kind gains
nothing. Of whatever length, a text is judged by the same few lines.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum

from rehydrate.compiler.caps import json_source


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


_HEAD, _TAIL, _LINE = 32_768, 8_192, 200

NUMBERED = re.compile(r"[ \t]{0,8}\d{1,7}(?:→|\t| ?\| ?|: (?= )|:(?=\t))")
"""A line's number as tools that read files put it before the line."""
MATCH = re.compile(
    r"(?P<path>(?:[A-Za-z]:[\\/])?[^\s:'\"(){}\[\]<>|,;=*]{1,260})(?P<mark>[:-])(?P<line>\d{1,7})(?P=mark)"
    r"|(?P<bare>(?:\.{0,2}/|[A-Za-z]:[\\/])?[\w@.+~-]{1,80}(?:[\\/][\w@.+~-]{1,80}){0,20}"
    r"\.\w{1,10}):(?! )(?=.)"
    r"|(?P<only>\d{1,7})[:-](?=.)"
)
"""A line that a search found: path, line number and text, path and text, or number and text."""
_STAMP = re.compile(r"\[?\d{1,4}[-/:.]\d\d[-/:.]\d\d")

_DIFF = re.compile(r"diff --git |@@ -\d+(?:,\d+)? \+\d+|--- (?:a/|/)|\+\+\+ (?:b/|/)|Index: ")
_PATH = re.compile(r"(?:[A-Za-z]:[\\/]|\.{0,2}/|~/)?[^\s:]{1,200}(?:[\\/][^\s:]{0,200}|\.\w{1,8})$")
_BULLET = re.compile(r"\s{0,8}(?:[-*+•]|\d{1,5}[.)])\s+\S|[|].*[|]\s*$|[-dlcbps][rwxsStT-]{9}\s")
_LOG = re.compile(
    r"\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d{2}[-/]\d{2}[ T]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:)"
    r"|.{0,40}\b(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|NOTICE)\b"
    r"|\[\d{2,}[.:]\d+\]"
)
SIGNATURE = re.compile(
    r"\s{0,24}(?:(?:export|default|pub(?:\([^)]{0,20}\))?|public|private|protected|internal|static|final"
    r"|abstract|async|unsafe|extern|override|virtual|inline|sealed|partial|open|data|declare)\s+){0,5}"
    r"(?:def|defp|defmodule|defmacro|defstruct|defimpl|defprotocol|class|fn|func|fun|function\*?"
    r"|interface|struct|enum|trait|impl|type|module|mod|namespace|package|record|object|protocol"
    r"|extension|union|macro_rules!|describe|context|test|it|sub|proc|procedure|template|CREATE"
    r"|create_table|schema|service|message|rpc)\b[\s(<\"'!]"
    r"|\s{0,8}(?:from\s+[\w.]+\s+import|import|use|using|alias|require|include|#include|@[A-Za-z])\b"
    r"|\s{0,12}(?:export\s+)?(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:\(|function)"
    r"|(?:[\w:<>,*&~]+\s+){1,4}[\w:~]+\s*\([^;]{0,200}$"
    r"|[.#@]?[\w-]+[^{;]{0,80}\{\s*$"
)
"""A line by which code is found again: what is defined or imported in it."""
_CODE_MARK = re.compile(
    r".*[;{}]\s*$|\s*(?:return|if|for|while|else|end|elif|case|when|do|let|const|var|val|self\.|this\.)\b"
    r"|\s*[)\]}]+[;,]?\s*$|.{0,80}(?:=>|->|::|\|>|==|&&|\|\||:=)|\s*(?:#|//|/\*|\*|--|<!--|<\w+)"
    r"|\s*[\w.@:]+\s*(?:=|\()\s*\S|\s*\w+:\s.{0,80},\s*$"
)
_SHELLS = ("bash", "shell", "exec", "terminal", "command", "run", "taskoutput", "console", "log")
_SEARCHES = ("grep", "rg", "search", "ack")
_READERS = ("read", "view", "cat", "open", "edit", "write")


def kind_of(text: str, tool: str = "") -> Kind:
    """What the text is made of; `tool` is the name of the tool that gave it.

    >>> kind_of('[{"id": 1}, {"id": 2}]'), kind_of("src/a.py:3:import os\\nsrc/b.py:9:import os")
    (<Kind.JSON: 'json'>, <Kind.MATCHES: 'matches'>)
    """
    return Kind.JSON if json_source.is_json(text) else kind_of_lines(text, tool)


def kind_of_lines(text: str, tool: str = "") -> Kind:
    """What a text is made of that is no JSON."""
    lines = _sample(text)
    if not lines:
        return Kind.TEXT
    by = tool.lower()
    count = len(lines)
    if count >= 3 and json_source.are_rows(lines):
        return Kind.JSON_LINES
    if _is_diff(lines):
        return Kind.DIFF
    bare = [line[found.end() :] if (found := NUMBERED.match(line)) else line for line in lines]
    is_numbered = sum(a is not b for a, b in zip(lines, bare, strict=True)) > 0.6 * count
    matches = 0 if is_numbered else sum(1 for line in lines if _is_match(line))
    if matches > (0.4 if _any_of(_SEARCHES, by) else 0.7) * count:
        return Kind.MATCHES
    if not is_numbered and _is_list(lines):
        return Kind.LIST
    logged = sum(1 for line in bare if _LOG.match(line))
    if logged > 0.3 * count:
        return Kind.LOG
    signatures = sum(1 for line in bare if SIGNATURE.match(line))
    marks = sum(1 for line in bare if _CODE_MARK.match(line))
    wanted = 0.25 if is_numbered or _any_of(_READERS, by) else 0.5
    if signatures > 0.02 * count and marks + signatures > wanted * count:
        return Kind.CODE
    if is_numbered and marks > 0.5 * count:
        return Kind.CODE
    return Kind.LOG if _any_of(_SHELLS, by) and count >= 20 else Kind.TEXT


def _sample(text: str) -> list[str]:
    """Lines from the beginning and the end, each cut, the empty ones left out."""
    parts = text[:_HEAD].split("\n")
    if len(text) > _HEAD:
        parts = parts[:-1] or parts
        parts += text[max(_HEAD, len(text) - _TAIL) :].split("\n")[1:]
    return [part[:_LINE] for part in parts if part and not part.isspace()]


def _any_of(names: tuple[str, ...], tool: str) -> bool:
    return any(name in tool for name in names)


def _is_match(line: str) -> bool:
    return line == "--" or (MATCH.match(line) is not None and not _STAMP.match(line))


def _is_diff(lines: list[str]) -> bool:
    heads = Counter(found[0][:3] for line in lines if (found := _DIFF.match(line)))
    if not heads["@@ "] and not heads["dif"]:
        return False
    body = sum(1 for line in lines if line[0] in "+- @\\" or _DIFF.match(line))
    return body > 0.7 * len(lines)


def _is_list(lines: list[str]) -> bool:
    """Whether nearly every line is a path, a bullet, a row of a table, or so many fields."""
    count = len(lines)
    if count < 3:
        return False
    if sum(1 for line in lines if _PATH.match(line)) > 0.8 * count:
        return True
    if sum(1 for line in lines if _BULLET.match(line)) > 0.8 * count:
        return True
    for separator in ("\t", ",", ";", "|"):
        fields = Counter(line.count(separator) for line in lines)
        columns, rows = fields.most_common(1)[0]
        enough = 1 if separator == "\t" else 2
        if columns >= enough and rows > 0.9 * count:
            return True
    return False
