"""What swapping summaries in costs: `python -m benches.python.swap_costs [--table] [--soft N]`.

The coding sessions of `cache_replay`, and the chats of LoCoMo (a request for each turn of the
second speaker), in four of its layouts: the context store swapped in from the background, the store
written again for every request (without memories and the clock), verbatim compaction alone, and no
compaction.
A swap breaks the cached prefix. It costs what has to be written again, beyond reading it, and the
tokens of the summary itself; where the cache was cold, the summary alone. Shorter prompts pay that
back: the dollars of all prompts say whether they did.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benches.python.cache_replay import LONG, Request, Session, Way, coding, prompts
from benches.report.rows import Part, Row
from rehydrate.cost import Usage, prefix_report, price_of, simulate
from rehydrate.prompt import Budget, CompiledPrompt, Section
from rehydrate.prompt.counting import upper_bound
from rehydrate.retention import Conversation, read_locomo

LAYOUTS = {
    "background": "the store from the background",
    "store each turn": "the store anew for every request",
    "as shipped": "compacted verbatim",
    "context": "not compacted",
}
WINDOW = 200_000
SOFT = Budget().soft_tokens
CHAT_SOFT = 16_000
"""Of chats, which have about 20,000 tokens each."""
CHAT_GAP_SECONDS = 30.0
HEADER = (
    "session",
    "layout",
    "swaps",
    "verbatim compactions",
    "M tokens sent",
    "read",
    "written",
    "dollars",
    "dollars a swap",
    "largest prompt",
)


class Swaps(NamedTuple):
    """The prompts of some sessions in one layout."""

    usage: Usage
    dollars: float
    swaps: int
    compactions: int
    """Other breaks of the prefix: verbatim compactions."""
    lost: float
    """Dollars that the swaps cost."""
    largest: int
    """Tokens of the largest prompt."""

    @property
    def read(self) -> float:
        """Share of the tokens that is read from the cache."""
        return self.usage.read / self.usage.input

    @property
    def written(self) -> float:
        """Share that is written to it."""
        return (self.usage.written + self.usage.written_1h) / self.usage.input

    @property
    def a_swap(self) -> str:
        """Dollars of one swap."""
        return f"{self.lost / self.swaps:.3f} $" if self.swaps else "-"

    def __str__(self) -> str:
        """Return the figures in a line."""
        swaps = f"{self.swaps} swaps ({self.a_swap} each), " if self.swaps else ""
        return (
            f"{self.dollars:.2f} $: {swaps}{self.compactions} verbatim, "
            f"{self.usage.input / 1e6:.2f} M tokens, {self.read:.0%} read, {self.written:.0%} "
            f"written, the largest prompt {self.largest:,}"
        )


def measure(session: Session, layout: str, way: Way, soft_tokens: int) -> Swaps:
    """Replay the session in one layout."""
    made = prompts(session, layout, way, Budget(soft_tokens, 10**9))
    times = [request.seconds for request in session.requests]
    gaps = [max(after - before, 0.0) for before, after in pairwise(times)]
    job = simulate(made, price=way.price, minimum_tokens=way.minimum, ttl=way.ttl, gaps=gaps)
    swaps, compactions, lost = 0, 0, 0.0
    for number, (before, after) in enumerate(pairwise(made), 1):
        earlier, later = (session.requests[place].history for place in (number - 1, number))
        report = prefix_report(before, after, price=way.price, ttl=way.ttl)
        if report.extends or len(later) <= len(earlier):  # or the agent itself compacted
            continue
        summary = _summary(after)
        if summary is None or _is_same(summary, _summary(before)):
            compactions += 1
            continue
        swaps += 1
        is_warm = job.turns[number].read > 0
        lost += (report.cost or 0.0) if is_warm else 0.0
        lost += (summary.tokens or 0) * way.price.write_share(way.ttl) * way.price.input / 1e6
    largest = max(each.tokens for each in made)
    return Swaps(job.total, job.input_cost, swaps, compactions, lost, largest)


def _summary(prompt: CompiledPrompt) -> Section | None:
    sections = prompt.ir.sections
    return next((each for each in sections if each.id in ("summary", "store")), None)


def _is_same(one: Section, other: Section | None) -> bool:
    return other is not None and one.content == other.content


def total(found: Sequence[Swaps]) -> Swaps:
    """Return the figures of several sessions together."""
    return Swaps(
        Usage.total([each.usage for each in found]),
        sum(each.dollars for each in found),
        sum(each.swaps for each in found),
        sum(each.compactions for each in found),
        sum(each.lost for each in found),
        max(each.largest for each in found),
    )


def groups(data: Path | None, soft: int) -> Iterator[tuple[str, list[Session], int]]:
    """Yield each long session, and the airline jobs together, with their soft budget."""
    for session in coding(data):
        if len(session.requests) >= LONG:
            yield session.name, [session], soft
    if talks := chats(data):
        yield f"LoCoMo, {len(talks)} chats", talks, CHAT_SOFT


def chats(data: Path | None) -> list[Session]:
    """Return the chats of LoCoMo: many user turns, and no tools."""
    path = data / "locomo_dev.json" if data else None
    if path is None or not path.exists():
        return []
    return [_chat(each) for each in read_locomo(path)]


def _chat(chat: Conversation) -> Session:
    said = chat.messages
    turns = [
        (place, place - 1)
        for place in range(1, len(said))
        if said[place]["role"] == "assistant" and said[place - 1]["role"] == "user"
    ]
    requests = [Request(said[:end], CHAT_GAP_SECONDS * end, turn, None) for end, turn in turns]
    return Session(chat.name, "Answer as a friend would.", (), (), requests, "anthropic")


def part(data: Path | None, way: Way, soft: int) -> Part:
    """Return the section of the report."""
    rows = []
    for name, sessions, limit in groups(data, soft):
        found = {
            layout: total([measure(each, layout, way, limit) for each in sessions])
            for layout in LAYOUTS
        }
        window = upper_bound(found["context"].largest, way.provider)
        fits = "" if window <= WINDOW else ", which no window holds"
        reported = [f"{LAYOUTS[layout]} {each}" for layout, each in found.items()]
        rows.append(
            Row(
                f"{name}, soft limit {limit:,}: all prompts",
                found["background"].dollars,
                "$",
                beside="; ".join(reported) + fits,
                limit="What is shorter than the model's smallest prefix is never cached",
            )
        )
    about = (
        f"Real sessions replayed as in `cache_replay` ({way.model}, ttl {way.ttl}, real gaps). The "
        "figure is of the context store swapped in from the background. A swap costs what it "
        "makes written again, beyond reading it, and its summary."
    )
    return Part("Cache: what a swap costs", about, rows)


def table(data: Path | None, way: Way, soft: int) -> Iterator[str]:
    """Yield a line for each session and layout."""
    yield f"| {' | '.join(HEADER)} |"
    yield f"|{'---|' * len(HEADER)}"
    for name, sessions, limit in groups(data, soft):
        for layout, words in LAYOUTS.items():
            found = total([measure(each, layout, way, limit) for each in sessions])
            cells = [name, words, found.swaps, found.compactions]
            cells += [f"{found.usage.input / 1e6:.2f}", f"{found.read:.0%}", f"{found.written:.0%}"]
            cells += [f"{found.dollars:.2f}", found.a_swap, f"{found.largest:,}"]
            yield f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the part as JSON, or the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.python.swap_costs", description=__doc__
    )
    parser.add_argument("--table", action="store_true", help="a line a session and layout")
    parser.add_argument("--soft", type=int, default=SOFT, help="soft limit of coding sessions")
    parser.add_argument("--model", default="claude-opus-4-6")
    parser.add_argument("--ttl", default="5m", choices=("5m", "1h"))
    options = parser.parse_args()
    way = Way("anthropic", options.model, options.ttl, price_of(options.model))
    folder = os.environ.get("REHYDRATE_DATA")
    data = Path(folder) if folder else None
    if options.table:
        for line in table(data, way, options.soft):
            print(line, flush=True)
    else:
        print(part(data, way, options.soft).to_json())


if __name__ == "__main__":
    main()
