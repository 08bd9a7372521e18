"""An agent server: conversations by id, one Context each, one memory, plain or streamed replies.

    pip install fastapi uvicorn
    python examples/server.py

No network, no key: the model is scripted; put `AnthropicModel("claude-opus-4-6")` in its place.
docs/server.md says what is done here and why.

    say() { curl -sN localhost:8000/conversations/a/messages --json "$1"; }
    say '{"text": "We draw 7.5 m."}'
    say '{"text": "Find us a berth.", "stream": true}'
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

import rehydrate
from rehydrate import Budget, CompiledPrompt, Context, Memory
from rehydrate.agent import Interpreter, Model, TurnLimits
from rehydrate.testing import ScriptedModel, call

SYSTEM = "You are the harbour's assistant."
MOST_CONVERSATIONS = 1_000
"""So many are kept; the one that was used longest ago goes first."""
IDLE_SECONDS = 3_600
CACHE_BYTES = 128 << 20


def free_berths(draught: float) -> list[int]:
    """The berths that are free and deep enough.

    Args:
        draught: In metres.
    """
    return [berth for berth, depth in ((4, 8.0), (7, 6.0)) if depth > draught]


def scripted() -> ScriptedModel:
    """Stands for a real model: it calls a tool, reads its result, and remembers what is told."""

    def reply(prompt: CompiledPrompt) -> Any:
        last = prompt.messages[-1]["content"]
        if not isinstance(last, str) and last[0]["type"] == "tool_result":
            return f"You can have berth {json.loads(last[0]['content'])[0]}."
        said = last if isinstance(last, str) else last[-1]["text"]
        if "berth" not in said:
            return "Noted."
        drawn = re.findall(r"draw ([\d.]+) m", json.dumps(prompt.messages))
        return call("free_berths", draught=float(drawn[-1])) if drawn else "What do you draw?"

    return ScriptedModel(reply)


class Conversation:
    """One conversation: its context, and who may speak in it now."""

    def __init__(self, id_: str, memory: Memory) -> None:
        """A new one; nothing is asked yet."""
        self.context = Context(
            memory.within(id_),
            provider="anthropic",
            system=SYSTEM,
            thread=id_,
            budget=Budget(soft_tokens=30_000),
        )
        self.turn = anyio.Lock()  # an Interpreter refuses a second turn; here it waits
        self.used = time.monotonic()


class Conversations:
    """The conversations of this process, those longest unused given up first."""

    def __init__(self, memory: Memory, most: int = MOST_CONVERSATIONS) -> None:
        """Take the memory they share, and how many are kept."""
        self._memory, self._most = memory, most
        self._kept: OrderedDict[str, Conversation] = OrderedDict()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def get(self, id_: str) -> Conversation | None:
        """The conversation, if it is kept."""
        return self._kept.get(id_)

    def open(self, id_: str) -> Conversation:
        """The conversation; a new one where there is none."""
        found = self._kept.setdefault(id_, Conversation(id_, self._memory))
        found.used = time.monotonic()
        self._kept.move_to_end(id_)
        self._give_up()
        return found

    def close(self, id_: str) -> bool:
        """Whether there was one; a turn that runs goes on to its end."""
        return self._kept.pop(id_, None) is not None

    def _give_up(self) -> None:
        for id_, kept in list(self._kept.items()):
            is_old = time.monotonic() - kept.used > IDLE_SECONDS
            if not is_old and len(self._kept) <= self._most:
                return
            if not kept.turn.statistics().locked:
                del self._kept[id_]


class Said(BaseModel):
    """What the user says."""

    text: str = Field(min_length=1, max_length=200_000)
    stream: bool = False
    remember: bool = False
    """Keep it in memory too, for later conversations under the same id."""


def make_app(model: Model | None = None, folder: str | None = None) -> FastAPI:
    """The server; a model of your own, and where its memory is."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory() as scratch:
            memory = Memory.open(Path(folder or scratch) / "memory.db")
            answering = scripted() if model is None else model
            rehydrate.process.cache_limit(CACHE_BYTES)
            # Before the first request: imports, tables, the SDK, this loop's client.
            app.state.warmed = await rehydrate.awarm_up(models=[answering], memories=[memory])
            app.state.agent = Interpreter(
                answering, [free_berths], limits=TurnLimits(steps=10, timeout=120)
            )
            app.state.conversations = Conversations(memory)
            app.state.memory = memory
            try:
                yield
            finally:  # requests are over or cancelled by now: each history is valid
                if hasattr(answering, "aclose"):
                    await answering.aclose()
                await memory.aclose()

    app = FastAPI(lifespan=life)

    @app.post("/conversations/{id_}/messages")
    async def say(id_: str, said: Said) -> Any:
        conversation = app.state.conversations.open(id_)
        if said.remember:
            await app.state.memory.within(id_).aadd([said.text], source="user")
        if said.stream:
            return StreamingResponse(streamed(conversation, said), media_type="text/event-stream")
        async with conversation.turn:
            turn = await app.state.agent.arun(conversation.context, said.text)
        if not turn.is_answered:
            raise HTTPException(502, {"stopped": turn.stopped})
        return {"answer": turn.answer, "steps": turn.steps, "stopped": turn.stopped}

    async def streamed(conversation: Conversation, said: Said) -> AsyncIterator[str]:
        """The turn's events, as server-sent ones; a client that goes away cancels the turn."""
        async with (
            conversation.turn,
            aclosing(app.state.agent.astream(conversation.context, said.text)) as events,
        ):
            async for event in events:
                told = event.to_dict()
                if told["event"] == "text_delta":
                    yield f"data: {json.dumps({'text': told['text']})}\n\n"
                elif told["event"] == "turn_ended":
                    yield f"data: {json.dumps({'stopped': told['stopped']})}\n\n"

    @app.get("/conversations/{id_}")
    async def about(id_: str) -> dict[str, Any]:
        conversation = app.state.conversations.get(id_)
        if conversation is None:
            raise HTTPException(404)
        # Both are there at once, also while a turn of it runs.
        usage = conversation.context.usage._asdict()
        return {"history": conversation.context.history, "usage": usage}

    @app.delete("/conversations/{id_}")
    async def close(id_: str) -> dict[str, bool]:
        return {"closed": app.state.conversations.close(id_)}

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {
            "conversations": len(app.state.conversations),
            "cached_bytes": rehydrate.process.cached_bytes(),
            "cache_limit": rehydrate.process.cache_limit(),
            "warm_up_ms": app.state.warmed.elapsed_ms,
        }

    return app


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(make_app(), host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
