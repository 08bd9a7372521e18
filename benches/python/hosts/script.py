"""The conversation that every host has: what is asked, what the tool finds, what is answered."""

from __future__ import annotations

import random

from rehydrate import Budget

TURNS = 200
CALLS = 2 * TURNS
"""Of the model: in each turn one that calls the tool, and one that answers."""
BUDGET = Budget(soft_tokens=20_000)
INSTRUCTIONS = "Be brief."
_TEXT = (
    "berth crane ferry harbour pilot tide anchor cargo manifest customs invoice buoy mooring "
    "schedule weather depth channel tug container captain port signal lamp winch rope deck hull "
)
_WORDS = _TEXT.split()


def is_tool_call(call: int) -> bool:
    """Return whether the model's reply number ``call`` calls the tool."""
    return call % 2 == 0


def question(turn: int) -> str:
    """Return what the user says."""
    return words(f"question {turn}", 60)


def query_of(call: int) -> str:
    """Return what the tool is asked in a call."""
    return f"berth {call} of quay {call * 7 % 31}"


def looked_up(query: str) -> str:
    """Return a tool's result."""
    return f"{words(query, 900)} The lock of {query} opens with {code(query)}. {words(query, 300)}"


def answer(call: int) -> str:
    """Return what the model answers."""
    return words(f"answer {call}", 120)


def code(query: str) -> str:
    """Return the code that a tool's result has."""
    return str(random.Random(f"code {query}").randint(100_000, 999_999))


def words(seed: str, most: int) -> str:
    """Return up to so many words, the same for the same seed."""
    chance = random.Random(seed)
    return " ".join(chance.choice(_WORDS) for _ in range(chance.randint(most // 6, most)))
