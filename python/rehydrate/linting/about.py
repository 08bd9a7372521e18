"""The rules' names, and what each looks for: all that the command line's help needs to load."""

from __future__ import annotations

ABOUT: dict[str, str] = {
    "base64": "binary data as text",
    "echo": "content that stands earlier already",
    "raw_log": "logs in full",
    "search_dump": "searches that return whole files",
    "unused_result": "tool results never used again",
    "whole_file": "long files in full",
    "heavy_tools": "heavy tool schemas",
    "thinking": "thinking of turns that are over",
    "growth": "tokens a turn, and when the budget is crossed",
    "growing_system": "a system prompt that grows",
    "unstable_prefix": "dates, times and ids that break the cache",
    "breakpoints": "cache marks too many, too early or missing",
}
"""The subject of each rule, in a few words."""
