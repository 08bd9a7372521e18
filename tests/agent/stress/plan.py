"""Plan: everything that chance decides about one run before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Way = Literal["run", "events", "sync"]
SOURCES = ("memory", "clock", "fails", "hangs", "late", "says_nothing", "notes")
MANUAL = ("claude-sonnet-4-5", "claude-haiku-4-5")
"""Those whose thinking has a budget of its own; the others are adaptive."""
MODELS = {
    "anthropic": (
        *("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-1"),
        *("claude-fable-5-2", "claude-opus-5", "claude-sonnet-4-5", "claude-haiku-4-5"),
    ),
    "openai_chat": ("gpt-5", "local-model"),
    "openai_responses": ("gpt-5",),
}


@dataclass(frozen=True)
class Plan:
    """One run: a conversation of some turns, with a provider of its own."""

    name: str
    """Of the seed and the run: all other dice of the run are cast by it."""
    wire: str
    model: str
    is_named: bool
    """Whether the context is told which model it is."""
    backend: Literal["asyncio", "trio"]
    way: Way
    streams: bool
    thinking: dict | None
    turns: int
    soft_tokens: int
    max_job_tokens: int | None
    system_chars: int
    sources: tuple[str, ...]
    storm: float
    """How often a request fails."""
    cancels: float
    """How often a turn is cancelled."""
    native: bool
    """Whether asyncio's own cancellation is used, which no shield of anyio's holds off."""
    steps: int
    seconds: float | None
    dollars: float | None
    tool_seconds: float
    parallel_calls: int
    attempts: int
    timeout: float | None
    jit_calls: int
    jit_tokens: int
    wordiness: int
    """How long the things that are said are."""
    talks: float
    """How often a reply calls tools."""

    def dice(self, *what: object) -> Random:
        """Dice for one purpose: what else was cast meanwhile changes nothing."""
        return Random(f"{self.name} {what}")

    @property
    def is_small(self) -> bool:
        """Whether the window may be too small for what must stand in it."""
        return self.soft_tokens < 4_000


def plan_of(seed: int, number: int) -> Plan:
    """The plan of one run, the same each time."""
    name = f"{seed}:{number}"
    dice = Random(name)
    wire = dice.choice(["anthropic", "anthropic", "openai_chat", "openai_responses"])
    way: Way = dice.choices(["run", "events", "sync"], [6, 3, 1])[0]
    backend = "asyncio" if way == "sync" else dice.choice(["asyncio", "trio"])
    soft = dice.choice([2_500, 4_000, 4_000, 8_000, 8_000, 50_000])
    model = dice.choice(MODELS[wire])
    return Plan(
        name=name,
        wire=wire,
        model=model,
        is_named=dice.random() < 0.8,
        backend=backend,
        way=way,
        streams=way == "events" or dice.random() < 0.5,
        thinking=_thinking(model, dice),
        turns=dice.choice([1, 2, 3, 3, 4, 6, 9]),
        soft_tokens=soft,
        max_job_tokens=dice.choices([None, soft * 3], [15, 1])[0],
        system_chars=dice.choice([0, 60, 4_000]),
        sources=tuple(source for source in SOURCES if dice.random() < 0.3),
        storm=dice.choice([0.0, 0.08, 0.3]),
        cancels=dice.choice([0.0, 0.3, 0.6]),
        native=backend == "asyncio" and dice.random() < 0.5,
        steps=dice.choice([3, 8, 20]),
        seconds=dice.choices([None, 0.3], [12, 1])[0],
        dollars=0.02 if wire != "openai_chat" and dice.random() < 0.05 else None,
        tool_seconds=0.15,
        parallel_calls=dice.choice([1, 2, 8]),
        attempts=dice.choice([1, 3, 5]),
        timeout=dice.choice([None, None, 0.4]),
        jit_calls=dice.choice([2, 8]),
        jit_tokens=dice.choice([600, 1_500, 4_000]),
        wordiness=dice.choice([40, 200, 800]),
        talks=dice.choice([0.3, 0.6, 0.8]),
    )


def _thinking(model: str, dice: Random) -> dict | None:
    if not model.startswith("claude") or dice.random() < 0.2:
        return None
    if model in MANUAL:
        return {"type": "enabled", "budget_tokens": 1_024}
    return {"type": "adaptive"}
