"""Patterns: what lines of code, searches, diffs, lists and logs look like.

All are matched against the first characters of a line, and none looks far: a hostile line costs no
more than any other.
"""

from __future__ import annotations

import re

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
