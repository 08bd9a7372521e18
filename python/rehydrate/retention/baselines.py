"""Baselines for a compactor: the last steps, random steps, and an oracle that knows the needs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile, zip_longest
from typing import TYPE_CHECKING, Any, Literal

from rehydrate import formats
from rehydrate._native import best_cover, payload, steps
from rehydrate.errors import MissingPackageError
from rehydrate.messages import Message as Parsed, PieceKind
from rehydrate.retention.measure import Compact, Cut
from rehydrate.retention.reading import Message, estimate_cost, is_system

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


Cost = Callable[[Message], int]
Measure = Literal["names", "lines"]


Steps = Sequence[Sequence[Message]]
Choose = Callable[[Steps, Sequence[int], int, "str | None"], list[int]]
"""Returns the numbers of the steps to keep, from whole steps, costs, the budget and the query."""


def _keeping(choose: Choose, cost: Cost) -> Compact:
    """Return a compactor that keeps the chosen steps and every system message, in order."""

    def compact(messages: list[Message], query: str | None, ratio: float) -> list[Message]:
        system = [i for i, message in enumerate(messages) if is_system(message)]
        groups = [group for group in steps(messages) if group.start not in system]
        costs = [sum(cost(messages[i]) for i in group) for group in groups]
        system_cost = sum(cost(messages[i]) for i in system)
        budget = int((sum(costs) + system_cost) * ratio + 1e-9) - system_cost
        whole = [[messages[i] for i in group] for group in groups]
        chosen = choose(whole, costs, max(0, budget), query)
        indices = sorted([*system, *(i for step in chosen for i in groups[step])])
        return [messages[i] for i in indices]

    return compact


def keep_last(cost: Cost = estimate_cost) -> Compact:
    """Keep the longest run of whole steps at the end that fits the budget."""

    def choose(_: Steps, costs: Sequence[int], budget: int, _query: str | None) -> list[int]:
        used = accumulate(reversed(costs))
        count = sum(1 for _ in takewhile(lambda tokens: tokens <= budget, used))
        return list(range(len(costs) - count, len(costs)))

    return _keeping(choose, cost)


def keep_random(seed: int = 0, cost: Cost = estimate_cost) -> Compact:
    """Keep whole steps in a random order, each one that still fits; the same ones every time."""

    def choose(_: Steps, costs: Sequence[int], budget: int, query: str | None) -> list[int]:
        order = list(range(len(costs)))
        random.Random(f"{seed} {query}").shuffle(order)
        chosen = []
        for step in order:
            if costs[step] <= budget:
                budget -= costs[step]
                chosen.append(step)
        return chosen

    return _keeping(choose, cost)


def oracle(cut: Cut, cost: Cost = estimate_cost, measure: Measure = "names") -> Compact:
    """Keep nearly as many needed names, or lines, as possible: it sees which are used later.

    The better of two greedy covers, by needs per token and by needs alone: a few points under the
    optimum.
    """

    def choose(each: Steps, costs: Sequence[int], budget: int, _query: str | None) -> list[int]:
        found = cut.mentioned if measure == "names" else cut.quoted
        return best_cover([found(step) for step in each], costs, budget)

    return _keeping(choose, cost)


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
    """Return its tool calls; an input that is not a JSON object is under `raw`."""
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
