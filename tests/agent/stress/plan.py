"""Plan: all random choices about one run, made before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Mode = Literal["run", "events", "sync"]
Writer = Literal["store", "provider", "invents", "late", "hangs", "fails", "errs"]
WRITERS: tuple[Writer, ...] = (
    *("store", "store", "provider", "provider"),
    *("invents", "late", "hangs", "fails", "errs"),
)
SOURCES = ("memory", "clock", "fails", "hangs", "late", "says_nothing", "notes")
MANUAL = ("claude-sonnet-4-5", "claude-haiku-4-5")
"""Models whose thinking has a token budget; for the others it is adaptive."""
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
    """One run: a conversation of some turns with its own provider."""

    name: str
    """Seed and number of the run; it seeds all other random choices of the run."""
    wire: str
    model: str
    is_named: bool
    """Whether the context knows the model's name."""
    backend: Literal["asyncio", "trio"]
    mode: Mode
    streams: bool
    thinking: dict | None
    turns: int
    soft_tokens: int
    max_job_tokens: int | None
    system_chars: int
    sources: tuple[str, ...]
    fault_rate: float
    """Share of the requests that fail."""
    cancel_rate: float
    """Share of the turns that are cancelled."""
    native: bool
    """Whether turns are cancelled by asyncio's task.cancel(), which ignores anyio's shields."""
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
    """How long texts are."""
    call_rate: float
    """Share of the replies that call tools."""
    writer: Writer | None
    """Who writes summaries in the background; None: nobody does."""
    is_stored: bool
    """Whether the conversation is stored, and opened again before each turn."""

    def dice(self, *what: object) -> Random:
        """Return a random generator for one purpose; other draws do not change it."""
        return Random(f"{self.name} {what}")

    @property
    def is_small(self) -> bool:
        """Whether the window may be too small for the entries that must stay."""
        return self.soft_tokens < 4_000


def plan_of(seed: int, number: int) -> Plan:
    """Return the plan of one run; the same for the same seed and number."""
    name = f"{seed}:{number}"
    dice = Random(name)
    wire = dice.choice(["anthropic", "anthropic", "openai_chat", "openai_responses"])
    mode: Mode = dice.choices(["run", "events", "sync"], [6, 3, 1])[0]
    backend = "asyncio" if mode == "sync" else dice.choice(["asyncio", "trio"])
    soft = dice.choice([2_500, 4_000, 4_000, 8_000, 8_000, 50_000])
    model = dice.choice(MODELS[wire])
    return Plan(
        name=name,
        wire=wire,
        model=model,
        is_named=dice.random() < 0.8,
        backend=backend,
        mode=mode,
        streams=mode == "events" or dice.random() < 0.5,
        thinking=_thinking(model, dice),
        turns=dice.choice([1, 2, 3, 3, 4, 6, 9]),
        soft_tokens=soft,
        max_job_tokens=dice.choices([None, soft * 3], [15, 1])[0],
        system_chars=dice.choice([0, 60, 4_000]),
        sources=tuple(source for source in SOURCES if dice.random() < 0.3),
        fault_rate=dice.choice([0.0, 0.08, 0.3]),
        cancel_rate=dice.choice([0.0, 0.3, 0.6]),
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
        call_rate=dice.choice([0.3, 0.6, 0.8]),
        writer=dice.choice([None, *WRITERS]),
        is_stored=dice.random() < 0.5,
    )


def _thinking(model: str, dice: Random) -> dict | None:
    if not model.startswith("claude") or dice.random() < 0.2:
        return None
    if model in MANUAL:
        return {"type": "enabled", "budget_tokens": 1_024}
    return {"type": "adaptive"}
