"""A long conversation for hosts' agents: its questions, its tool, and the replies of a provider."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.provider import Call, ScriptedReply

_WORDS = (
    "berth crane ferry harbour pilot tide anchor cargo manifest customs invoice buoy mooring "
    "schedule weather depth channel tug container captain port signal lamp winch rope deck"
)
WORDS = _WORDS.split()
INSTRUCTIONS = "You are the harbour's assistant."
ASKED = "What is the code of the lock of "


def words(seed: str, count: int) -> str:
    """Return some words, the same for the same seed."""
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(count))


def question(turn: int) -> str:
    """Return what the user says in a turn."""
    return f"Question {turn}: {words(f'q{turn}', 30)}"


def looked_up(query: str) -> str:
    """Return what the tool finds: long for some queries, each with a code of its own."""
    about = words(query, 60 if len(query) % 3 else 300)
    return f"{query}: {about}. The lock of {query} opens with code {code(query)}."


def code(query: str) -> str:
    """Return the code that is planted in what the tool finds for a query."""
    return str(random.Random(f"code {query}").randint(100_000, 999_999))


def messages_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the messages or items of a request."""
    return list(body.get("messages") or body.get("input") or ())


def since_user(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what came after the last thing the user said."""
    messages = messages_of(body)
    last = max(n for n, each in enumerate(messages) if _is_users(each))
    return messages[last:]


def _is_users(message: Mapping[str, Any]) -> bool:
    if message.get("role") != "user":
        return False
    content = message["content"]
    return isinstance(content, str) or all(each["type"] != "tool_result" for each in content)


def text_of(message: Mapping[str, Any]) -> str:
    """Return all of a message as one text."""
    return json.dumps(message, ensure_ascii=False)


def reply(body: Mapping[str, Any], wire: str) -> ScriptedReply:
    """Look something up, then answer; the reply depends on the request alone."""
    said = since_user(body)
    seed = text_of(said[0])[-60:]
    if len(said) == 1:
        asked = Call("lookup", {"query": words(seed, 3)})
        return ScriptedReply(f"I look. {words(seed, 5)}", calls=(asked,), thinking="Look it up.")
    return ScriptedReply(f"Answer: {words(seed, 40)}", thinking="That is it.")


def asking_back(body: Mapping[str, Any], wire: str) -> ScriptedReply:
    """The same, but ask for a code that the user wants, and say it."""
    said = since_user(body)
    asked = text_of(said[0]).partition(ASKED)[2].partition("?")[0]
    if not asked:
        return reply(body, wire)
    if len(said) == 1:
        call = Call("request_context", {"query": f"code of the lock of {asked}"})
        return ScriptedReply("I ask.", calls=(call,))
    is_there = code(asked) in text_of(said[-1])
    return ScriptedReply(f"The code is {code(asked)}." if is_there else "I cannot say.")


def forgotten(queries: Sequence[str], messages: Sequence[Any]) -> str:
    """Return the first query whose code is in none of the messages."""
    text = "".join(map(text_of, messages))
    return next(query for query in queries if code(query) not in text)


def breaks(lists: Sequence[Sequence[Any]]) -> int:
    """Return how many of the lists do not begin with the one before."""
    return sum(list(b[: len(a)]) != list(a) for a, b in pairwise(lists))
