"""What the layout of a prompt saves: real sessions replayed request by request.

    python -m benches.python.cache_replay                  the part of the report, as JSON
    python -m benches.python.cache_replay --table          a line a session instead
    ... --provider openai_chat --model gpt-5, or --ttl 1h

Every request of a session is built again, as the agent made it: tools, system prompt, what its
memory has on the user's last words, the clock, and the history up to there. The same content is
laid out in these ways, and sent through the simulated cache:

    no cache        every token at the full price: on Anthropic, a prompt without any mark
    cached          what an agent without Rehydrate sends at its best: no memories, no clock, the
                    whole history after a system prompt that never changes, its end marked
    clock in front  memories and the time of the request are in the system prompt; its end and the
                    last message are marked: the layout of many an agent
    memory in front the same without the clock: the system prompt is another in every user turn
    stateless       hydrate and compile for each request by itself: dynamic sections are before
                    the last user turn, wherever that is
    context         `Context`, with the passes that only lay out: a dynamic section stays where it
                    was first sent, and every prompt extends the one before it
    as shipped      `Context` as it comes: tool results capped, echoes removed, compacted at 50,000
                    tokens. It sends less; the others, but for
                    `cached`, send the same
    background      the same, summarised in the background by the context store and swapped in
    store each turn the context store, written again for every request, after the rules, and the
                    last 20 messages; without memories and the clock

The coding sessions do not hold their tools and system prompt; a stand-in of the size that their
first bill shows (about 22,000 tokens) is sent instead. Their time stamps are real, and so is the
compaction in three of them, at which the history begins again. `billed` is what the provider
charged for the prompts as Claude Code had sent them (its cache lives for an hour).
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from benches.python.inputs import EXAMPLE, ROOT
from benches.report.rows import Part, Row
from rehydrate import count_tokens, formats
from rehydrate.context import BackgroundCompaction, CompactionEvent, Context, compact_history
from rehydrate.cost import (
    Price,
    Ttl,
    Usage,
    cost,
    minimum_prefix,
    prefix_report,
    price_of,
    simulate,
)
from rehydrate.prompt import (
    DEFAULT_PASSES,
    PROVIDERS,
    Budget,
    CompiledPrompt,
    ContextRequest,
    History,
    PromptIR,
    Provenance,
    Provider,
    Section,
    Stability,
    ToolDef,
    compile as compile_ir,
)
from rehydrate.prompt.compiler import order, place_breakpoints

SYSTEM_TOKENS, TOOLS, TOOL_TOKENS = 4_200, 12, 1_480
"""Sizes of a coding agent: about 22,000 tokens, by the first bill of the sessions."""
AIRLINE_TOOL_TOKENS = 200
MEMORY_CHUNKS = 3
KEEP_LAST = 20
AIRLINE_GAP_SECONDS = 8.0
AIRLINE_JOBS = 40
LONG = 100
"""Minimum requests of a long job."""
LAYOUTS = (
    "no cache",
    "cached",
    "clock in front",
    "memory in front",
    "stateless",
    "context",
    "as shipped",
    "background",
    "store each turn",
)
ROOM = Budget(10**9, 10**9)
SHIPPED = Budget(Budget().soft_tokens, 10**9)
LAYING_OUT = (order, place_breakpoints)


class Request(NamedTuple):
    """One call of the model: the history so far, and the time."""

    history: Sequence[Any]
    seconds: float
    turn: int
    """Index of the last user turn in the history."""
    billed: Usage | None


class Session(NamedTuple):
    """A recorded job."""

    name: str
    system: str
    tools: tuple[ToolDef, ...]
    memory: tuple[str, ...]
    requests: list[Request]
    format: str


# Sessions


def coding(data: Path | None) -> Iterator[Session]:
    """Yield the session that the project ships, and those of the data."""
    yield _coding("examples/session", EXAMPLE)
    for path in sorted((data / "claude_code").glob("*.jsonl")) if data else ():
        yield _coding(path.stem[:8], path)


def airline(data: Path | None) -> list[Session]:
    """Return the airline-support trajectories."""
    path = data / "airline_dev.json" if data else None
    if path is None or not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))
    memory = tuple(
        str(message["content"])[:600]
        for row in rows
        for message in row["traj"][1:]
        if message["role"] == "assistant" and message.get("content")
    )
    names = sorted(
        {
            call["function"]["name"]
            for row in rows
            for message in row["traj"]
            for call in message.get("tool_calls") or ()
        }
    )
    tools = tuple([_tool(name, AIRLINE_TOOL_TOKENS) for name in names])
    return [
        _airline(f"airline {row['task_id']}", row["traj"], tools, memory)
        for row in rows[:AIRLINE_JOBS]
    ]


def _coding(name: str, path: Path) -> Session:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    ignored = set(formats.parse(lines, "claude_code").ignored)
    requests: list[Request] = []
    seen: set[str] = set()
    history: list[Any] = []
    for place, line in enumerate(lines):
        if line.get("subtype") == "compact_boundary":
            history = []
        if place in ignored:
            continue
        message_id = line["message"].get("id") if line["type"] == "assistant" else None
        if line["type"] == "assistant" and message_id not in seen and history:
            usage = line["message"].get("usage")
            billed = Usage.billed(usage) if usage else None
            requests.append(_request([*history], _seconds(line), "claude_code", billed))
        seen.add(message_id)
        history.append(line)
    tools = tuple([_tool(f"tool_{number}", TOOL_TOKENS) for number in range(TOOLS)])
    return Session(name, _words(0, SYSTEM_TOKENS), tools, _documents(), requests, "claude_code")


def _airline(
    name: str, trajectory: list[Any], tools: tuple[ToolDef, ...], memory: tuple[str, ...]
) -> Session:
    system, *said = trajectory
    requests = [
        _request(said[:place], AIRLINE_GAP_SECONDS * place, "openai_chat", None)
        for place, message in enumerate(said)
        if message["role"] == "assistant" and place
    ]
    return Session(name, system["content"], tools, memory, requests, "openai_chat")


def _request(history: list[Any], seconds: float, format: str, billed: Usage | None) -> Request:  # noqa: A002
    messages = formats.parse(history, format).messages
    turns = [message.index for message in messages if message.is_user_turn]
    return Request(history, seconds, turns[-1] if turns else 0, billed)


def _seconds(line: Any) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp() if "timestamp" in line else 0.0


# The parts around the history


@cache
def _documents() -> tuple[str, ...]:
    """Return pieces of a text that never changes, in place of a project's memory and tools.

    It must not be our own documentation: an edit of the README moved the figures by two points.
    """
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    return tuple([text[start : start + 1_600] for start in range(0, len(text), 1_600)])


@cache
def _words(start: int, tokens: int) -> str:
    """Return words of that text from one of them on, about this many tokens."""
    words = " ".join(_documents()).split()
    count, text = int(tokens / 1.5), ""
    while count_tokens(text) < tokens:
        text = " ".join([words[(start + place) % len(words)] for place in range(count)])
        count += max(1, int((tokens - count_tokens(text)) / 1.5))
    return text


def _tool(name: str, tokens: int) -> ToolDef:
    start = sum(map(ord, name)) * 37
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    return ToolDef(name, _words(start, tokens), schema)


@cache
def _bags(memory: tuple[str, ...]) -> list[frozenset[str]]:
    return [frozenset(text.lower().split()) for text in memory]


def recalled(session: Session, request: Request) -> str:
    """Return what memory has for the last user turn: the pieces with most words in common."""
    said = formats.parse([request.history[request.turn]], session.format).messages
    words = frozenset(" ".join(message.text for message in said).lower().split())
    bags = _bags(session.memory)
    best = sorted(range(len(bags)), key=lambda n: (-len(words & bags[n]), n))[:MEMORY_CHUNKS]
    return "\n\n".join(session.memory[place] for place in best)


# Layouts


class Way(NamedTuple):
    """The provider and model of the prompts, and their prices."""

    provider: Provider
    model: str
    ttl: Ttl
    price: Price

    @property
    def minimum(self) -> int:
        """Minimum tokens of a cached prefix."""
        return minimum_prefix(self.model)


def prompts(
    session: Session, layout: str, way: Way, budget: Budget = SHIPPED
) -> list[CompiledPrompt]:
    """Return every request of the session in one layout; `budget` is of those that compact."""
    if layout in ("context", "as shipped", "background"):
        return list(_context_prompts(session, way, layout, budget))
    if layout == "store each turn":
        return list(_store_prompts(session, way))
    return [_prompt(session, request, layout, way) for request in session.requests]


def _context_prompts(
    session: Session, way: Way, layout: str, budget: Budget
) -> Iterator[CompiledPrompt]:
    context: Context | None = None
    said = 0
    writer = _Writer()
    for request in session.requests:
        if context is None or len(request.history) < said:  # the agent compacted its history
            context, said = _context(session, way, layout, budget, writer), 0
        context.add(*request.history[said:])
        said = len(request.history)
        asked[:] = [request]
        yield context.prompt()
        writer.idle.wait()  # the agent takes longer for its step than the store does


class _Writer:
    """Whether a summary is being written."""

    def __init__(self) -> None:
        self.idle = Event()
        self.idle.set()

    def reported(self, event: CompactionEvent) -> None:
        """Note that one is begun, or ready."""
        if event.kind == "started":
            self.idle.clear()
        elif event.kind == "ready":
            self.idle.set()


def _store_prompts(session: Session, way: Way) -> Iterator[CompiledPrompt]:
    for request in session.requests:
        short = compact_history(request.history, keep_last=KEEP_LAST, format=session.format)
        ir = PromptIR(
            ContextRequest(budget=ROOM),
            (_rules(session.system), *_static("store", short.summary)),
            session.tools,
            History(tuple(request.history[short.kept_from :]), session.format),
        )
        yield compile_ir(
            ir, way.provider, model=way.model, passes=LAYING_OUT, minimum_prefix=way.minimum
        )


def _static(name: str, text: str) -> list[Section]:
    return [Section(name, text, Provenance(name), stability=Stability.STATIC)] if text else []


asked: list[Request] = []
"""The request in progress: what a source may know besides the user's words."""


def _context(session: Session, way: Way, layout: str, budget: Budget, writer: _Writer) -> Context:
    is_shipped = layout != "context"

    def memory(_: Any) -> str:
        return recalled(session, asked[-1])

    def clock(_: Any) -> str:
        return _clock(asked[-1])

    return Context(
        [memory, clock],
        provider=way.provider,
        model=way.model,
        system=session.system,
        tools=session.tools,
        format=session.format,
        budget=budget if is_shipped else ROOM,
        passes=DEFAULT_PASSES if is_shipped else LAYING_OUT,
        timeout=None,
        background=BackgroundCompaction(on_event=writer.reported)
        if layout == "background"
        else None,
    )


def _clock(request: Request) -> str:
    return f"It is {datetime.fromtimestamp(request.seconds, UTC).isoformat()}."


def _prompt(session: Session, request: Request, layout: str, way: Way) -> CompiledPrompt:
    memory, clock = recalled(session, request), _clock(request)
    if layout == "stateless":
        sections = [
            _rules(session.system),
            Section("memory", memory, Provenance("memory")),
            Section("clock", clock, Provenance("clock")),
        ]
    elif layout == "cached":
        sections = [_rules(session.system)]
    else:
        sections = [_rules(session.system, memory, *[clock] * (layout == "clock in front"))]
    ir = PromptIR(
        ContextRequest(budget=ROOM),
        tuple(sections),
        session.tools,
        History(tuple(request.history), session.format),
    )
    return compile_ir(
        ir, way.provider, model=way.model, passes=LAYING_OUT, minimum_prefix=way.minimum
    )


def _rules(*parts: str) -> Section:
    text = "\n\n".join(parts)
    return Section("rules", text, Provenance("system"), stability=Stability.STATIC)


# Figures


class Bill(NamedTuple):
    """The cost of several jobs in one layout."""

    requests: int
    usage: Usage
    dollars: float
    plain: float
    """Dollars without any cache."""
    breaks: int
    """Prompts that do not extend the previous one, though nothing was compacted."""

    @property
    def saved(self) -> float:
        """Share saved by the cache."""
        return 1 - self.dollars / self.plain


def bill(sessions: Sequence[Session], layout: str, way: Way) -> Bill:
    """Bill all requests of these sessions, each session with a cache of its own."""
    bills = [_bill(session, layout, way) for session in sessions]
    return Bill(
        sum(one.requests for one in bills),
        Usage.total([one.usage for one in bills]),
        sum(one.dollars for one in bills),
        sum(one.plain for one in bills),
        sum(one.breaks for one in bills),
    )


def _bill(session: Session, layout: str, way: Way) -> Bill:
    made = prompts(session, "context" if layout == "no cache" else layout, way)
    times = [request.seconds for request in session.requests]
    gaps = [max(after - before, 0.0) for before, after in pairwise(times)]
    job = simulate(made, price=way.price, minimum_tokens=way.minimum, ttl=way.ttl, gaps=gaps)
    breaks = sum(
        not prefix_report(before, after).extends
        for (before, after), (earlier, later) in zip(
            pairwise(made), pairwise(session.requests), strict=True
        )
        if len(later.history) > len(earlier.history)
    )
    dollars = job.plain_input_cost if layout == "no cache" else job.input_cost
    return Bill(len(made), job.total, dollars, job.plain_input_cost, breaks)


def billed(sessions: Sequence[Session], price: Price) -> Bill | None:
    """Return what the provider charged for these sessions' prompts, where the logs have it."""
    usages = [request.billed for session in sessions for request in session.requests]
    known = [usage._replace(output=0) for usage in usages if usage]
    if not known or len(known) < len(usages):
        return None
    total = Usage.total(known)
    return Bill(len(known), total, cost(total, price), cost(Usage(uncached=total.input), price), 0)


# Output


def part(data: Path | None, way: Way) -> Part:
    """Return the section of the report."""
    sessions = [session for session in coding(data) if len(session.requests) >= LONG]
    rows = _rows(f"coding, {len(sessions)} jobs of {LONG}+ requests", sessions, way)
    if jobs := airline(data):
        rows += _rows(f"airline support, {len(jobs)} jobs", jobs, way)
    return Part(
        "Cache: what the layout of a prompt saves",
        f"Every request of real sessions replayed through the simulated cache of {way.model} "
        f"(ttl {way.ttl}, real gaps): dollars of all prompts against the same prompts without any "
        "cache. The claim to reproduce is 72 to 86 % on long jobs. `clock in front`: memories and "
        "the time in a marked system prompt; `memory in front`: without the time; `stateless`: "
        "hydrate and compile for each request by itself; measured: `Context`. "
        "`benches/python/cache_replay.py` says what stands in for what the logs do not hold.",
        rows,
    )


def _rows(name: str, sessions: Sequence[Session], way: Way) -> list[Row]:
    bills = {layout: bill(sessions, layout, way) for layout in LAYOUTS[1:]}
    context, shipped, cached = bills["context"], bills["as shipped"], bills["cached"]
    saved = {
        way: f"{100 * (1 - each.dollars / context.plain):.0f} %" for way, each in bills.items()
    }
    others = [f"{layout} {100 * bills[layout].saved:.0f} %" for layout in LAYOUTS[2:5]]
    if charged := billed([one for one in sessions if one.requests[0].billed], way.price):
        others.append(f"Claude Code as billed {100 * charged.saved:.0f} %")
    return [
        Row(
            f"{name}: input cost saved by the layout",
            100 * context.saved,
            "%",
            want=72,
            beyond=86,
            more_is_better=True,
            beside="; ".join(others),
            limit="Each token is written once; after a long pause the cache is gone",
        ),
        Row(
            f"{name}: input cost saved as shipped",
            100 * (1 - shipped.dollars / context.plain),
            "%",
            more_is_better=True,
            beside=f"{shipped.usage.input / 1e6:.1f} M tokens sent instead of "
            f"{context.usage.input / 1e6:.1f} M",
            limit="Caps, echoes and compactions leave out tokens that are not asked back here",
        ),
        Row(
            f"{name}: input cost saved against the same session cached, without Rehydrate",
            100 * (1 - shipped.dollars / cached.dollars),
            "%",
            more_is_better=True,
            beside=f"{shipped.dollars:.2f} $ instead of {cached.dollars:.2f} $ for the prompts; "
            f"{100 * cached.saved:.0f} % of what no cache costs is saved by the cache alone",
            limit="The cache alone saves most of it; a session that never grows long has nothing "
            "to leave out, and memories cost extra",
        ),
        Row(
            f"{name}: input cost saved with summaries in the background",
            100 * (1 - bills["background"].dollars / context.plain),
            "%",
            more_is_better=True,
            beside=f"as shipped, compacted verbatim, {saved['as shipped']}; the store written anew "
            f"for every request {saved['store each turn']}",
            limit="A swap rewrites what stays; it comes at the beginning of a user turn only",
        ),
        Row(
            f"{name}: prompts of {context.requests} that needlessly broke the prefix",
            context.breaks,
            "",
            want=0,
            beside=f"clock in front {bills['clock in front'].breaks}, memory in front "
            f"{bills['memory in front'].breaks}, stateless {bills['stateless'].breaks}",
        ),
    ]


def table(data: Path | None, way: Way) -> Iterator[str]:
    """Yield a line for each session."""
    price = way.price
    yield f"{way.model}, ${price.input}/M, ttl {way.ttl}: dollars of all prompts, saved, breaks\n"
    yield f"| session | requests | M tokens | {' | '.join(LAYOUTS)} | billed |"
    yield "|---|---|---|" + "---|" * (len(LAYOUTS) + 1)
    groups = [(one.name, [one]) for one in coding(data)]
    if jobs := airline(data):
        groups.append((f"airline, {len(jobs)} jobs", jobs))
    for name, sessions in groups:
        bills = [bill(sessions, layout, way) for layout in LAYOUTS]
        cells = [f"${bills[0].dollars:.2f}"]
        plain = bills[0].dollars
        cells += [f"${b.dollars:.2f} ({1 - b.dollars / plain:.0%}, {b.breaks})" for b in bills[1:]]
        charged = billed(sessions, price)
        cells.append(f"${charged.dollars:.2f} ({charged.saved:.0%})" if charged else "")
        tokens = bills[0].usage.input / 1e6
        yield f"| {name} | {bills[0].requests} | {tokens:.2f} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="a line a session")
    parser.add_argument("--provider", default="anthropic", choices=PROVIDERS)
    parser.add_argument("--model", default="claude-opus-4-6")
    parser.add_argument("--ttl", default="5m", choices=("5m", "1h"))
    options = parser.parse_args()
    way = Way(options.provider, options.model, options.ttl, price_of(options.model))
    folder = os.environ.get("REHYDRATE_DATA")
    data = Path(folder) if folder else None
    if options.table:
        for line in table(data, way):
            print(line, flush=True)
    else:
        print(part(data, way).to_json())


if __name__ == "__main__":
    main()
