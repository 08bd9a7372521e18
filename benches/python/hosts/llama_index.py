"""A function agent of LlamaIndex: nothing, ChatMemoryBuffer, Memory, RehydrateMemory."""

from __future__ import annotations

from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.memory.types import BaseChatStoreMemory

from benches.python.hosts import script
from benches.python.hosts.table import Row, as_texts, timed
from rehydrate.context import BackgroundCompaction
from rehydrate.integrations.llama_index import RehydrateMemory

_FIELDS = {"role", "blocks", "additional_kwargs"}


async def rows() -> list[Row]:
    """Return the rows of this host."""
    largest = script.BUDGET.soft_tokens
    limits: dict[str, Any] = {"token_limit": largest, "tokenizer_fn": _about_tokens}
    stored = RehydrateMemory(budget=script.BUDGET, background=BackgroundCompaction())
    return [
        await _run("LlamaIndex, nothing", _Whole()),
        await _run("LlamaIndex, `ChatMemoryBuffer`", ChatMemoryBuffer.from_defaults(**limits)),
        await _run("LlamaIndex, `Memory`", Memory.from_defaults(**limits)),
        await _run("LlamaIndex, `RehydrateMemory`", RehydrateMemory(budget=script.BUDGET)),
        await _run("LlamaIndex, `RehydrateMemory`, background", stored),
    ]


def _about_tokens(text: str) -> str:
    """Return something as long as the text has tokens: both recount the whole list in each step,
    and exact counts take ten minutes."""
    return text[::6]


class _Whole(BaseChatStoreMemory):
    """All messages; LlamaIndex' own memories count their tokens in each step."""

    @classmethod
    def from_defaults(cls, **_: Any) -> _Whole:
        return cls()


class _Scripted(MockFunctionCallingLLM):
    _sent: list[list[str]] = PrivateAttr(default_factory=list)

    @property
    def sent(self) -> list[list[str]]:
        return self._sent

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def _prepare_chat_with_tools(self, *_: Any, chat_history: Any = None, **__: Any) -> Any:
        return {"messages": chat_history}

    async def achat(self, messages: Any, **_: Any) -> ChatResponse:
        call = len(self._sent)
        self._sent.append(as_texts([_as_sent(each) for each in messages]))
        if script.is_tool_call(call):
            asked = {"query": script.query_of(call)}
            made: Any = ToolCallBlock(
                tool_call_id=f"c{call}", tool_name="lookup", tool_kwargs=asked
            )
        else:
            made = TextBlock(text=script.answer(call))
        return ChatResponse(message=ChatMessage(role="assistant", blocks=[made]))

    def get_tool_calls_from_response(self, response: Any, **_: Any) -> list[ToolSelection]:
        calls = [each for each in response.message.blocks if isinstance(each, ToolCallBlock)]
        return [
            ToolSelection(
                tool_id=each.tool_call_id, tool_name=each.tool_name, tool_kwargs=each.tool_kwargs
            )
            for each in calls
        ]


def _as_sent(message: ChatMessage) -> dict[str, Any]:
    dumped = message.model_dump(mode="json", include=_FIELDS)
    dumped["additional_kwargs"].pop("session_id", None)  # `Memory` notes it; no model gets it
    return dumped


async def lookup(query: str) -> str:
    """Look something up."""
    return script.looked_up(query)


async def _run(name: str, memory: Any) -> Row:
    seconds: list[float] = []
    if isinstance(memory, RehydrateMemory):
        object.__setattr__(memory, "aget", timed(seconds, memory.aget))
    llm = _Scripted()
    agent = FunctionAgent(
        llm=llm, tools=[lookup], system_prompt=script.INSTRUCTIONS, streaming=False
    )
    for turn in range(script.TURNS):
        await agent.run(script.question(turn), memory=memory)
    return Row(name, llm.sent, seconds, getattr(memory, "_thread", None))
