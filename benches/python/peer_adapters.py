"""Adapters of other tools as compactors, a few lines each, with their choices.

Each peer gets a conversation of chat-completions messages, converted to its own form before the
clock starts, and a budget: the requested share of what its own counter says the conversation has.
Its output is converted back to chat-completions messages after the clock stops.
"""

from __future__ import annotations

import copy
import json
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rehydrate.retention import Kept
from rehydrate.retention.baselines import Turns, to_langchain
from rehydrate.retention.reading import Message

MODEL = "gpt-4o"
"""The model name for peers that need one to count tokens: o200k_base, as ours."""
SUMMARY_SHARE = 0.25
"""Share of the budget for the summary; the rest is for the last messages."""
CALL_CHARS = 400
"""Characters quoted of a turn that only calls tools: its input may be a whole file."""
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n")

Piece = tuple[int | None, str | None]
"""Index of an output message (None: it is new), and its text if that is changed."""


class Peer(NamedTuple):
    """A peer as a compactor; `cut` takes a conversation in its form, the budget, and all tokens."""

    name: str
    form: Callable[[list[Message]], Any]
    count: Callable[[Any], int]
    cut: Callable[[Any, int, int], Any]
    pieces: Callable[[Any, Any], Iterable[Piece]]
    """Takes the output of `cut`, and the conversation in the peer's form."""

    def __call__(self, messages: list[Message], query: str | None, ratio: float) -> Kept:
        """Return the peer's output for the messages.

        A question becomes the last user message, as in a request: peers look for it there. It is
        added to the budget, and removed from the output.
        """
        asked = [] if query is None else [{"role": "user", "content": query}]
        theirs = self.form(copy.deepcopy([*messages, *asked]))
        whole = self.count(theirs)
        extra = self.count(self.form(asked)) if asked else 0
        budget = int((whole - extra) * ratio) + extra
        started = time.perf_counter()
        left = self.cut(theirs, budget, whole)
        seconds = time.perf_counter() - started
        kept = restored(messages, self.pieces(left, theirs))
        kept.seconds = seconds  # type: ignore[attr-defined]
        return kept


def restored(messages: Sequence[Message], pieces: Iterable[Piece]) -> Kept:
    """Return the output as messages: the same objects where nothing in them changed.

    A message whose first half is still there, in place or in a summary, is kept in part.
    """
    kept: list[Message] = []
    indices: set[int] = set()
    texts = [_text(message) for message in messages]
    halves = [text[: (len(text) + 1) // 2] for text in texts]
    for index, text in pieces:
        if index is None:
            kept.append({"role": "user", "content": text})
            indices |= {i for i, half in enumerate(halves) if half and half in str(text)}
        elif index < len(messages):  # the question came after them
            is_whole = text is None or text == texts[index]
            kept.append(messages[index] if is_whole else {**messages[index], "content": text})
            if is_whole or halves[index] in str(text):
                indices.add(index)
    return Kept(kept, sorted(indices))


def _text(message: Message) -> str:
    return str(message.get("content") or "")


# ---- LangChain: the counter is the one that its documentation and its middleware use


def _approximately(turns: Turns) -> int:
    from langchain_core.messages.utils import count_tokens_approximately

    return count_tokens_approximately(turns)


def _of_turns(left: Turns, turns: Turns) -> Iterator[Piece]:
    for turn in left:
        index = int(turn.id) if str(turn.id).isdigit() else None  # None: a turn of its own
        is_whole = index is not None and turn.content == turns[index].content
        yield index, None if is_whole else str(turn.content)


def trimmed(**options: Any) -> Callable[[Turns, int, int], Any]:
    def cut(turns: Turns, budget: int, _whole: int) -> Any:
        from langchain_core.messages import trim_messages

        options.setdefault("include_system", True)
        return trim_messages(turns, max_tokens=budget, token_counter=_approximately, **options)

    return cut


def tool_uses_cleared(turns: Turns, budget: int, whole: int) -> Turns:
    """Clear tool uses with its default `keep` of 3 results, and its own placeholder.

    `clear_at_least` is set so that it stops at the budget: by default it clears every result but
    three, whatever the budget.
    """
    from langchain.agents.middleware import ClearToolUsesEdit

    edited = list(turns)
    edit = ClearToolUsesEdit(trigger=budget, clear_at_least=whole - budget)
    edit.apply(edited, count_tokens=_approximately)
    return edited


def summarised(turns: Turns, budget: int, _whole: int) -> Any:
    """Summarise without a model: quote the first sentence of each message, as they fit.

    It gets everything that is removed: by default it would get the last 4,000 tokens, to spare a
    model. Beginning with the newest message keeps a few points more of coding, and fewer of LoCoMo.
    """
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    room = int(budget * SUMMARY_SHARE)

    def first_sentences(given: Turns) -> str:
        sentences, left = [], room * 4  # characters, as its counter measures
        for turn in given:
            calls = getattr(turn, "tool_calls", ())
            called = "; ".join(f"{call['name']} {json.dumps(call['args'])}" for call in calls)
            said = _SENTENCE.split(str(turn.content).strip(), maxsplit=1)[0] or called[:CALL_CHARS]
            if len(said) < left:
                left -= len(said) + 1
                sentences.append(said)
        return "\n".join(sentences)

    middleware = SummarizationMiddleware(
        FakeListChatModel(responses=[""]),  # it is never called: the summariser is
        trigger=("tokens", budget),
        keep=("tokens", max(1, budget - room)),
        trim_tokens_to_summarize=None,
        summarizer=first_sentences,
    )
    state = middleware.before_model({"messages": turns}, None)  # type: ignore[arg-type,typeddict-item]
    return state["messages"][1:] if state else turns  # the first says to remove all


# ---- haystack: default options and counter


def _haystack(messages: list[Message]) -> list[Any]:
    from haystack.dataclasses import ChatMessage

    # It refuses an empty result of a tool, which real sessions have: a space stands for it.
    empty = [m["role"] == "tool" and not m.get("content") for m in messages]
    filled = [{**m, "content": " "} if is_ else m for m, is_ in zip(messages, empty, strict=True)]
    chat = [ChatMessage.from_openai_dict_format(message) for message in filled]
    for index, message in enumerate(chat):
        message.meta["index"] = index
    return chat


def _haystack_counter() -> Any:
    from haystack.token_counters import ApproximateTokenCounter

    return ApproximateTokenCounter()


def haystacked(name: str) -> Callable[[list[Any], int, int], Any]:
    def cut(chat: list[Any], budget: int, _whole: int) -> Any:
        from haystack.hooks import compaction

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it is experimental
            compactor = getattr(compaction, name)()
        return compactor.compact(chat, budget, _haystack_counter()) or chat

    return cut


def _of_haystack(left: list[Any], chat: list[Any]) -> Iterator[Piece]:
    for message in left:
        index, result = message.meta.get("index"), message.tool_call_result
        if index is None:
            yield None, message.text
        else:
            yield index, None if message is chat[index] else str(result.result)


# ---- peers that take and return the messages themselves


def _litellm_form(messages: list[Message]) -> list[Message]:
    """Replace `"content": null`, on which it fails, by "": turns that only call tools have it."""
    return [{**message, "content": _text(message)} for message in messages]


def _litellm_count(messages: list[Message]) -> int:
    import litellm

    return int(litellm.token_counter(model=MODEL, messages=messages))


def litellm_compressed(messages: list[Message], budget: int, _whole: int) -> Any:
    """Use BM25 alone: embeddings call a provider. Its default target is 0.7 of the trigger."""
    import litellm

    found = litellm.compress(messages, MODEL, compression_trigger=budget, compression_target=budget)
    return found["messages"]


def headroom_compressed(messages: list[Message], budget: int, whole: int) -> Any:
    """Call it as its README does, with the requested ratio.

    It has no budget: the ratio is for Kompress, its model for prose, whose weights are a separate
    download and not here. The rest works on JSON, logs, searches and code.
    """
    from headroom import compress

    ratio = budget / whole
    return compress(messages, MODEL, target_ratio=ratio, kompress_model="disabled").messages


def _contexttrim(messages: list[Message], budget: int, strategy: str) -> Any:
    from contexttrim import ContextManager, strategies

    return ContextManager(budget, getattr(strategies, strategy)()).extend(messages)


def contexttrimmed(strategy: str) -> Callable[[list[Message], int, int], Any]:
    """Use the strategy's default options and contexttrim's counter."""
    return lambda messages, budget, _whole: _contexttrim(messages, budget, strategy).fit()


def _in_place(left: list[Message], _messages: list[Message]) -> Iterator[Piece]:
    """Yield as many messages as came in, some with another text."""
    return ((index, _text(message)) for index, message in enumerate(left))


def _some_of(left: list[Message], messages: list[Message]) -> Iterator[Piece]:
    place = {id(message): index for index, message in enumerate(messages)}
    return ((place[id(message)], None) for message in left)


LANGCHAIN: tuple[Any, ...] = (to_langchain, _approximately)
HAYSTACK: tuple[Any, ...] = (_haystack, lambda chat: _haystack_counter().count(chat))
CONTEXTTRIM: tuple[Any, ...] = (list, lambda m: _contexttrim(m, 0, "RecencyDrop").total_tokens())
PEERS = (
    # As the documentation has it, for a model that wants a user's turn first.
    Peer(
        "trim_messages, start_on human",
        *LANGCHAIN,
        trimmed(start_on="human", end_on=("human", "tool")),
        _of_turns,
    ),
    # In an agent's session the last user turn is often too far back: nothing would be left.
    Peer("trim_messages, human or ai", *LANGCHAIN, trimmed(start_on=("human", "ai")), _of_turns),
    Peer("trim_messages, no start_on", *LANGCHAIN, trimmed(), _of_turns),
    Peer("ClearToolUsesEdit", *LANGCHAIN, tool_uses_cleared, _of_turns),
    Peer("SummarizationMiddleware, first sentences", *LANGCHAIN, summarised, _of_turns),
    Peer("litellm.compress", _litellm_form, _litellm_count, litellm_compressed, _in_place),
    Peer("Headroom, without Kompress", list, lambda m: len(str(m)), headroom_compressed, _in_place),
    *(
        Peer(f"haystack {name}", *HAYSTACK, haystacked(name), _of_haystack)
        for name in ("SlidingWindowCompactor", "ToolResultPruningCompactor")
    ),
    *(
        Peer(f"contexttrim {name}", *CONTEXTTRIM, contexttrimmed(name), _some_of)
        for name in ("ImportanceWeighted", "SemanticCluster")
    ),
)
