"""LangChain's `trim_messages` as a compactor, on a conversation in any format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rehydrate import formats
from rehydrate.errors import MissingPackageError
from rehydrate.messages import Message as Parsed
from rehydrate.messages import PieceKind
from rehydrate.retention.measure import Compact
from rehydrate.retention.reading import Message, estimate_cost, payload

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

Turns = list["BaseMessage"]


def trim_messages(cost: Callable[[Message], int] = estimate_cost) -> Compact:
    """LangChain's `trim_messages` at the same budget, by the same count of the same messages.

    A turn that LangChain keeps in part (one of several parallel results) counts as kept. Raises
    MissingPackageError without `langchain-core`.
    """
    try:
        import langchain_core.messages  # noqa: F401  it is loaded here, not in the first cut
    except ImportError:
        raise MissingPackageError("langchain-core", "has trim_messages") from None
    known: dict[tuple[int, ...], Turns] = {}

    def compact(messages: list[Message], _query: str | None, ratio: float) -> list[Message]:
        key = tuple(map(id, messages))  # of one cut only: its messages live while it is measured
        if key not in known:
            known.clear()
            known[key] = to_langchain(messages)

        def count(counted: Turns) -> int:
            return sum(cost(messages[i]) for i in {i for t in counted for i in indices_of(t)})

        budget = int(sum(map(cost, messages)) * ratio + 1e-9)
        kept = {i for turn in trim(known[key], budget, count) for i in indices_of(turn)}
        return [message for i, message in enumerate(messages) if i in kept]

    return compact


def to_langchain(messages: Sequence[Message]) -> Turns:
    """A conversation in any format that `rehydrate` reads, as LangChain has it.

    A message's id is the indices of the messages it was made of, such as `3` or `3,4`: an
    assistant's turn that a transcript splits into lines becomes one message again.
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
            said = _text(parsed, PieceKind.TOOL_RESULT)
            for answer in parsed.answers:
                found.append(ToolMessage(said, tool_call_id=answer, id=index))
                said = ""
            if text:
                found.append(HumanMessage(text, id=index))
        elif parsed.role == "system":
            found.append(SystemMessage(text, id=index))
        else:
            found.append(HumanMessage(text, id=index))
    return found


def indices_of(message: BaseMessage) -> list[int]:
    """The indices of the messages that a LangChain message was made of."""
    return [int(index) for index in str(message.id).split(",")]


def trim(messages: Turns, max_tokens: int, counter: Any) -> Turns:
    """`trim_messages` as its documentation has it: the last that fit, system kept.

    It may begin with an assistant's turn too: in an agent's session the last user turn is often so
    far back that nothing would be left.
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
    """Its tool calls; an input that is no JSON object stands whole under `raw`."""
    inputs = [piece.text for piece in parsed.pieces if piece.kind is PieceKind.TOOL_INPUT]
    calls = []
    for call, written in zip_longest(parsed.calls, inputs[: len(parsed.calls)], fillvalue=""):
        name, _, raw = written.partition(" ")
        try:
            args = json.loads(raw)
        except ValueError:
            args = None
        if not isinstance(args, dict):
            args = {"raw": raw}
        calls.append({"name": name or "tool", "args": args, "id": call, "type": "tool_call"})
    return calls
