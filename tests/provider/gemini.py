"""A strict Gemini: google-genai's own types, and the order that the service wants.

It shares no code with rehydrate. The order is that of the service's errors: "Please ensure that
function call turn comes immediately after a user turn or after a function response turn", "Please
ensure that function response turn comes immediately after a function call turn", "Please ensure
that the number of function response parts is equal to the number of function call parts of the
function call turn", "contents.parts must not be empty", "required oneof field 'data' must have one
initialized field", "Function call is missing a thought_signature in functionCall parts" (Gemini 3
and later, of the current turn).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

Request = dict[str, Any]

_META = {"thought", "thought_signature", "video_metadata", "media_resolution", "part_metadata"}


def refusal(request: Request, *, checks_signatures: bool = False) -> str | None:
    """Return why a body of `generateContent` is refused; None for one that is taken."""
    types = pytest.importorskip("google.genai.types")
    json.dumps(request)
    contents = [types.Content.model_validate(each) for each in request["contents"]]
    config = {key: value for key, value in request.items() if key != "contents"}
    types.GenerateContentConfig.model_validate(config)
    read = [each.model_dump(exclude_none=True) for each in contents]
    for number, content in enumerate(read):
        before = read[number - 1] if number else None
        why = _refused(content, before)
        if why:
            return f"content {number}: {why}"
    if checks_signatures:
        return _unsigned(read)
    return None


def _refused(content: Request, before: Request | None) -> str | None:  # noqa: PLR0911  reasons
    role, parts = content.get("role"), content.get("parts") or []
    if role not in ("user", "model"):
        return f"role {role!r}"
    if before is None and role != "user":
        return "starts with no user content"
    if not parts:
        return "contents.parts must not be empty"
    for part in parts:
        data = {key: value for key, value in part.items() if key not in _META}
        if len(data) != 1 or (data.get("text") == "" and "thought_signature" not in part):
            return "required oneof field 'data' must have one initialized field"
        called = data.get("function_call") or data.get("function_response") or {"name": "text"}
        if not called.get("name"):
            return "a function without a name"
    calls = [part["function_call"] for part in parts if "function_call" in part]
    answers = [part["function_response"] for part in parts if "function_response" in part]
    if calls and role != "model":
        return "a function call of the user's"
    if calls and before is not None and before["role"] == "model":
        return "function call turn after a model's turn"
    waiting = [
        part["function_call"] for part in (before or {}).get("parts", ()) if "function_call" in part
    ]
    if len(answers) != len(waiting):
        return f"{len(answers)} function responses for {len(waiting)} function calls"
    if answers and len(answers) < len(parts):
        return "a function response next to other parts"
    if Counter(each["name"] for each in answers) != Counter(each["name"] for each in waiting):
        return "function responses of other names"
    ids = {each["id"] for each in waiting if "id" in each}
    if ids and any(each.get("id", next(iter(ids))) not in ids for each in answers):
        return "function responses of other ids"
    return None


def _unsigned(contents: list[Request]) -> str | None:
    """Return why Gemini 3 refuses them: of the current turn, each first call has a signature."""
    for number in range(len(contents) - 1, -1, -1):
        content = contents[number]
        if content["role"] == "user" and "function_response" not in content["parts"][0]:
            return None
        calls = [part for part in content["parts"] if "function_call" in part]
        if calls and "thought_signature" not in calls[0]:
            return f"content {number}: function call is missing a thought_signature"
    return None
