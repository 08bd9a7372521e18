"""Baselines for a compactor: the last steps, random steps, and an oracle that knows the needs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rehydrate import formats
from rehydrate.errors import MissingPackageError
from rehydrate.messages import Message as Parsed, PieceKind
from rehydrate.retention.measure import Compact, Cut
from rehydrate.retention.reading import Message, estimate_cost, payload, role_of, steps, text_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


Cost = Callable[[Message], int]


@dataclass(frozen=True, slots=True)
class _Budgeted:
    """A conversation as whole steps with their costs, and the budget for them."""

    messages: list[Message]
    steps: list[range]
    costs: list[int]
    system: list[int]
    budget: int

    def keep(self, chosen: Sequence[int]) -> list[Message]:
        """Return the messages of the chosen steps and every system message, in order."""
        indices = sorted([*self.system, *(i for step in chosen for i in self.steps[step])])
        return [self.messages[i] for i in indices]


def keep_last(cost: Cost = estimate_cost) -> Compact:
    """Keep the longest run of whole steps at the end that fits the budget."""

    def compact(messages: list[Message], _query: str | None, ratio: float) -> list[Message]:
        job = _budgeted(messages, ratio, cost)
        left, chosen = job.budget, []
        for step in reversed(range(len(job.steps))):
            if job.costs[step] > left:
                break
            left -= job.costs[step]
            chosen.append(step)
        return job.keep(chosen)

    return compact


def keep_random(seed: int = 0, cost: Cost = estimate_cost) -> Compact:
    """Keep whole steps in a random order, each one that still fits; the same ones every time."""

    def compact(messages: list[Message], query: str | None, ratio: float) -> list[Message]:
        job = _budgeted(messages, ratio, cost)
        order = list(range(len(job.steps)))
        random.Random(f"{seed} {query}").shuffle(order)
        left, chosen = job.budget, []
        for step in order:
            if job.costs[step] <= left:
                left -= job.costs[step]
                chosen.append(step)
        return job.keep(chosen)

    return compact


def oracle(cut: Cut, cost: Cost = estimate_cost) -> Compact:
    """Keep nearly as many needed names as possible: it sees which names are used later.

    The better of two greedy covers, by names per token and by names alone: a few points under the
    optimum.
    """

    def compact(messages: list[Message], _query: str | None, ratio: float) -> list[Message]:
        job = _budgeted(messages, ratio, cost)
        texts = ["\n".join(text_of(messages[i]) for i in step) for step in job.steps]
        names_of = [frozenset(name for name in cut.needed if name in text) for text in texts]
        per_token = _cover(names_of, job.costs, job.costs, job.budget)
        by_names = _cover(names_of, job.costs, [1] * len(names_of), job.budget)
        return job.keep(max(per_token, by_names, key=lambda c: len(_union(names_of, c))))

    return compact


def _budgeted(messages: list[Message], ratio: float, cost: Cost) -> _Budgeted:
    system = [i for i, message in enumerate(messages) if role_of(message) == "system"]
    groups = [group for group in steps(messages) if group.start not in system]
    costs = [sum(cost(messages[i]) for i in group) for group in groups]
    system_cost = sum(cost(messages[i]) for i in system)
    budget = int((sum(costs) + system_cost) * ratio + 1e-9) - system_cost
    return _Budgeted(messages, groups, costs, system, max(0, budget))


def _cover(
    names_of: list[frozenset[str]], costs: list[int], prices: list[int], budget: int
) -> list[int]:
    """Choose steps by new names per price, while they fit and add something new."""
    chosen: list[int] = []
    covered: frozenset[str] = frozenset()
    while True:
        gains = [
            (len(names_of[step] - covered) / max(1, prices[step]), step)
            for step in range(len(names_of))
            if step not in chosen and costs[step] <= budget
        ]
        gain, best = max(gains, default=(0.0, -1))
        if gain <= 0:
            return chosen
        chosen.append(best)
        covered |= names_of[best]
        budget -= costs[best]


def _union(names_of: list[frozenset[str]], chosen: Sequence[int]) -> frozenset[str]:
    return frozenset().union(*(names_of[step] for step in chosen))


Turns = list["BaseMessage"]


def trim_messages(cost: Callable[[Message], int] = estimate_cost) -> Compact:
    """LangChain's `trim_messages` with the same budget and the same token counts.

    A turn that LangChain keeps in part (one of several parallel results) counts as kept. Raises
    MissingPackageError without `langchain-core`.
    """
    try:
        import langchain_core.messages  # noqa: F401  it is loaded here, not in the first cut
    except ImportError:
        raise MissingPackageError("langchain-core", "has trim_messages") from None
    converted: dict[tuple[int, ...], Turns] = {}

    def compact(messages: list[Message], _query: str | None, ratio: float) -> list[Message]:
        key = tuple(map(id, messages))  # of one cut only: its messages live while it is measured
        if key not in converted:
            converted.clear()
            converted[key] = to_langchain(messages)

        def count(counted: Turns) -> int:
            return sum(cost(messages[i]) for i in {i for t in counted for i in indices_of(t)})

        budget = int(sum(map(cost, messages)) * ratio + 1e-9)
        kept = {i for turn in trim(converted[key], budget, count) for i in indices_of(turn)}
        return [message for i, message in enumerate(messages) if i in kept]

    return compact


def to_langchain(messages: Sequence[Message]) -> Turns:
    """Convert a conversation in any format that `rehydrate` reads to LangChain's messages.

    A message's id is the indices of its source messages, such as `3` or `3,4`: an assistant turn
    that a transcript splits into lines becomes one message again.
    """
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    conversation = formats.parse(list(messages))
    are_items = conversation.format == "openai_responses"  # a turn is several items there
    found: Turns = []
    turn: object = None
    for parsed in conversation.messages:
        index = str(parsed.index)
        text = _text(parsed, PieceKind.TEXT)
        if parsed.role == "assistant":
            identity = payload(messages[parsed.index]).get("id")
            before = found[-1] if found else None
            is_same = are_items or (turn is not None and turn == identity)
            if is_same and isinstance(before, AIMessage):
                text = "\n".join(filter(None, (str(before.content), text)))
                calls = [*before.tool_calls, *_calls(parsed)]
                found[-1] = AIMessage(text, tool_calls=calls, id=f"{before.id},{index}")
            else:
                found.append(AIMessage(text, tool_calls=_calls(parsed), id=index))
            turn = identity
        elif parsed.answers:
            result = _text(parsed, PieceKind.TOOL_RESULT)
            for tool_call_id in parsed.answers:
                found.append(ToolMessage(result, tool_call_id=tool_call_id, id=index))
                result = ""  # the text once, not for each of several calls
            if text:
                found.append(HumanMessage(text, id=index))
        elif parsed.role == "system":
            found.append(SystemMessage(text, id=index))
        else:
            found.append(HumanMessage(text, id=index))
    return found


def indices_of(message: BaseMessage) -> list[int]:
    """Return the indices of the source messages of a LangChain message."""
    return [int(index) for index in str(message.id).split(",")]


def trim(messages: Turns, max_tokens: int, counter: Any) -> Turns:
    """Call `trim_messages` as its documentation does: the last that fit, system kept.

    The result may begin with an assistant's turn: in an agent's session the last user turn is often
    so far back that nothing would be left.
    """
    from langchain_core.messages import trim_messages as langchain_trim

    kept: Turns = langchain_trim(
        messages,
        max_tokens=max_tokens,
        token_counter=counter,
        strategy="last",
        include_system=True,
        start_on=("human", "ai"),
    )
    return kept


def _text(parsed: Parsed, kind: PieceKind) -> str:
    return "\n".join(piece.text for piece in parsed.pieces if piece.kind is kind)


def _calls(parsed: Parsed) -> list[Any]:
    """Return its tool calls; an input that is no JSON object is under `raw`."""
    inputs = [piece.text for piece in parsed.pieces if piece.kind is PieceKind.TOOL_INPUT]
    calls = []
    for tool_call_id, text in zip_longest(parsed.calls, inputs[: len(parsed.calls)], fillvalue=""):
        name, _, raw = text.partition(" ")
        try:
            args = json.loads(raw)
        except ValueError:
            args = None
        if not isinstance(args, dict):
            args = {"raw": raw}
        calls.append(
            {"name": name or "tool", "args": args, "id": tool_call_id, "type": "tool_call"}
        )
    return calls
