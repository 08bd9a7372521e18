"""What keeping a LangChain agent short costs: `python -m benches.python.host_langchain`.

A real agent of `create_agent` calls a scripted model 120 times: three calls of a tool and an answer
in each turn. Three ways: no compaction; LangChain's SummarizationMiddleware with a scripted model,
at the same limit; RehydrateMiddleware. The cost is in input-token units, as Anthropic bills them:
1.25 a token that is written to the cache, 0.1 one that is read from it. A summary's own call is
counted too. A fact is planted in the first turn; the last column says whether the last prompt shows
it, or `request_context` brings it back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from rehydrate import Budget, count_tokens
from rehydrate.integrations.langchain import RehydrateMiddleware

CALLS, STEPS = 120, 4
MOST, TARGET = 20_000, 12_000
"""A longer prompt is compacted, to the target."""
FACT = "The lock of berth nine opens with code 7319."
QUERY = "code of the lock of berth nine"
SUMMARY_WORDS = 400
WRITTEN, READ = 1.25, 0.1
CONFIG: Any = {"configurable": {"thread_id": "bench"}}
WORDS = (
    "berth crane ferry harbour pilot tide anchor cargo manifest customs invoice buoy mooring "
    "schedule weather depth channel tug container captain port signal lamp winch rope deck hull"
).split()


def words(seed: str, most: int) -> str:
    """Return up to so many words, the same for the same seed."""
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(most // 6, most)))


@tool
def lookup(query: str) -> str:
    """Look something up in the harbour's books."""
    return words(query, 1_200)


class Scripted(BaseChatModel):
    """A model of three calls and an answer a turn, which keeps what it was sent."""

    _sent: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def sent(self) -> list[list[BaseMessage]]:
        """The lists of messages that it was called with."""
        return self._sent

    def bind_tools(self, tools: Sequence[Any], **_options: Any) -> Any:
        """Return itself."""
        return self

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_more: Any) -> ChatResult:
        call = len(self._sent)
        self._sent.append(list(messages))
        message = AIMessage(words(f"answer {call}", 120))
        if call % STEPS != STEPS - 1:
            ask = {"name": "lookup", "args": {"query": f"b{call}"}, "id": f"c{call}"}
            message = AIMessage(words(f"step {call}", 60), tool_calls=[ask])
        return ChatResult(generations=[ChatGeneration(message=message)])


class Summariser(Scripted):
    """A model that answers with a summary of the usual length."""

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_more: Any) -> ChatResult:
        self._sent.append(list(messages))
        text = " ".join(WORDS[n % len(WORDS)] for n in range(SUMMARY_WORDS))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class Bill(NamedTuple):
    """What an agent's calls cost."""

    units: float
    tokens: int
    largest: int
    breaks: int


def bill(lists: Sequence[Sequence[BaseMessage]]) -> Bill:
    """Return the cost of calls with these lists of messages."""
    units, total, largest, breaks = 0.0, 0, 0, 0
    earlier: list[tuple[Any, ...]] = []
    for messages in lists:
        sent = [(m.type, m.content, str(getattr(m, "tool_calls", ""))) for m in messages]
        tokens = [count_tokens([message], format="langchain") for message in messages]
        shared = 0
        while shared < min(len(sent), len(earlier)) and sent[shared] == earlier[shared]:
            shared += 1
        breaks += shared < len(earlier)
        units += READ * sum(tokens[:shared]) + WRITTEN * sum(tokens[shared:])
        total += sum(tokens)
        largest = max(largest, sum(tokens))
        earlier = sent
    return Bill(units, total, largest, breaks)


def run(make: Callable[[Scripted], AgentMiddleware[Any, Any, Any] | None]) -> tuple[Any, ...]:
    """Return the agent's bill, that of summaries, and whether the planted fact is there."""
    model, summariser = Scripted(), Summariser()
    middleware = make(summariser)
    agent = create_agent(
        model,
        [lookup],
        system_prompt="You are the harbour's assistant.",
        middleware=[] if middleware is None else [middleware],
        checkpointer=InMemorySaver(),
    )
    state: Any = {"messages": []}
    for turn in range(CALLS // STEPS):
        asked = words(f"question {turn}", 60) if turn else f"{FACT} {words('first', 60)}"
        state = agent.invoke({"messages": [HumanMessage(asked)]}, CONFIG)
    is_shown = any(FACT in str(message.content) for message in model.sent[-1])
    kept = "shown" if is_shown else "lost"
    if isinstance(middleware, RehydrateMiddleware) and not is_shown:
        thread = middleware.thread(CONFIG, state["messages"])
        answer = thread.answer("request_context", {"query": QUERY}, "ask")
        kept = "brought back" if FACT in answer else "lost"
    return bill(model.sent), summariser.sent, kept


def main() -> None:
    """Print a line for each way."""
    ways: list[tuple[str, Callable[[Scripted], AgentMiddleware[Any, Any, Any] | None]]] = [
        ("no compaction", lambda _: None),
        (
            "SummarizationMiddleware",
            lambda model: SummarizationMiddleware(
                model, trigger=("tokens", MOST), keep=("tokens", TARGET)
            ),
        ),
        (
            "RehydrateMiddleware",
            lambda _: RehydrateMiddleware(
                budget=Budget(MOST, 10**9, compact_to=TARGET / MOST), provider="openai_chat"
            ),
        ),
    ]
    print(f"{CALLS} calls of a scripted model; more than {MOST:,} tokens are compacted")
    print(f"{'':24}{'units':>10}{'sent':>12}{'largest':>9}{'breaks':>8}{'summaries':>11}  fact")
    for name, make in ways:
        cost, summaries, kept = run(make)
        written = sum(WRITTEN * count_tokens(each, format="langchain") for each in summaries)
        print(
            f"{name:24}{cost.units + written:10,.0f}{cost.tokens:12,}{cost.largest:9,}"
            f"{cost.breaks:8}{len(summaries):11}  {kept}"
        )


if __name__ == "__main__":
    main()
