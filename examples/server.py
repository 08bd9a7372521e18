"""An agent server: stored conversations by id, one memory, plain or streamed replies.

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
from rehydrate.context import Threads
from rehydrate.errors import UnknownThreadError
from rehydrate.testing import ScriptedModel, call

SYSTEM = "You are the harbour's assistant."
MOST_CONVERSATIONS = 1_000
"""So many are held open; the one that was used longest ago goes first, and stays on disk."""
IDLE_SECONDS = 3_600
CACHE_BYTES = 128 << 20


def free_berths(draught: float) -> list[int]:
    """The berths that are free and deep enough.

    Args:
        draught: In metres.
    """
    return [berth for berth, depth in ((4, 8.0), (7, 6.0)) if depth > draught]


def scripted() -> ScriptedModel:
    """In place of a real model: it calls a tool, reads its result, and remembers what it hears."""

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
    """One conversation: its context once a turn has opened it, and who has the turn now."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.context: Context | None = None
        self.turn = anyio.Lock()  # an Interpreter refuses a second turn; here it waits
        self.used = time.monotonic()


class Conversations:
    """The conversations that are open in this process; all others are on disk."""

    def __init__(self, memory: Memory, threads: Threads, most: int = MOST_CONVERSATIONS) -> None:
        """Take the memory they share, their store, and how many are held open."""
        self._memory, self._threads, self._most = memory, threads, most
        self._kept: OrderedDict[str, Conversation] = OrderedDict()

    def __len__(self) -> int:
        """The number of open conversations."""
        return len(self._kept)

    def get(self, id_: str) -> Context | None:
        """The context of the conversation, if it is open."""
        kept = self._kept.get(id_)
        return kept.context if kept else None

    @asynccontextmanager
    async def turn(self, id_: str) -> AsyncIterator[Context]:
        """The context of the conversation, for one turn: from disk or new if it is not open yet."""
        async with self._alone(id_) as kept:
            if kept.context is None:  # a thread reads the file
                kept.context = await anyio.to_thread.run_sync(self._read, id_)
            yield kept.context

    async def delete(self, id_: str) -> bool:
        """Whether there was one; after a turn that runs, no byte of it is left on disk."""
        async with self._alone(id_):
            purged = await self._threads.apurge(id_)
            del self._kept[id_]  # who waits for this turn begins a new conversation
            return purged > 0

    @asynccontextmanager
    async def _alone(self, id_: str) -> AsyncIterator[Conversation]:
        while True:
            kept = self._kept.setdefault(id_, Conversation())
            async with kept.turn:
                if self._kept.get(id_) is not kept:  # deleted or given up meanwhile
                    continue
                kept.used = time.monotonic()
                self._kept.move_to_end(id_)
                self._give_up()
                yield kept
                return

    def _read(self, id_: str) -> Context:
        """It goes on where it was left, perhaps by another process; else it begins."""
        return Context(
            self._memory.within(id_),
            provider="anthropic",
            system=SYSTEM,
            threads=self._threads,
            thread=id_,
            budget=Budget(soft_tokens=30_000),
        )

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
    """The server; a model of your own, and where memory and conversations are kept."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory() as scratch:
            memory = Memory.open(Path(folder or scratch) / "memory.db")
            threads = Threads.open(Path(folder or scratch) / "threads.db", namespace="server")
            answering = scripted() if model is None else model
            rehydrate.process.cache_limit(CACHE_BYTES)
            # Before the first request: imports, tables, the SDK, this loop's client.
            app.state.warmed = await rehydrate.awarm_up(models=[answering], memories=[memory])
            app.state.agent = Interpreter(
                answering, [free_berths], limits=TurnLimits(steps=10, timeout=120)
            )
            app.state.conversations = Conversations(memory, threads)
            app.state.memory, app.state.threads = memory, threads
            try:
                yield
            finally:  # requests are over or cancelled by now: each history is valid
                if hasattr(answering, "aclose"):
                    await answering.aclose()
                await memory.aclose()
                threads.close()

    app = FastAPI(lifespan=life)

    @app.post("/conversations/{id_}/messages")
    async def say(id_: str, said: Said) -> Any:
        if said.remember:
            await app.state.memory.within(id_).aadd([said.text], source="user")
        if said.stream:
            return StreamingResponse(streamed(id_, said), media_type="text/event-stream")
        async with app.state.conversations.turn(id_) as context:
            turn = await app.state.agent.arun(context, said.text)
        if not turn.is_answered:
            raise HTTPException(502, {"stopped": turn.stopped})
        return {"answer": turn.answer, "steps": turn.steps, "stopped": turn.stopped}

    async def streamed(id_: str, said: Said) -> AsyncIterator[str]:
        """The turn's events, as server-sent ones; a client that goes away cancels the turn."""
        async with (
            app.state.conversations.turn(id_) as context,
            aclosing(app.state.agent.astream(context, said.text)) as events,
        ):
            async for event in events:
                fields = event.to_dict()
                if fields["event"] == "text_delta":
                    yield f"data: {json.dumps({'text': fields['text']})}\n\n"
                elif fields["event"] == "turn_ended":
                    yield f"data: {json.dumps({'stopped': fields['stopped']})}\n\n"

    @app.get("/conversations/{id_}")
    async def about(id_: str) -> dict[str, Any]:
        context = app.state.conversations.get(id_)
        if context is not None:  # both are there at once, also while a turn of it runs
            return {"history": context.history, "usage": context.usage._asdict()}
        try:
            stored = await app.state.threads.ahistory(id_)
        except UnknownThreadError as error:
            raise HTTPException(404) from error
        return {"history": [entry for _, entry in stored]}

    @app.delete("/conversations/{id_}")
    async def delete(id_: str) -> dict[str, bool]:
        return {"deleted": await app.state.conversations.delete(id_)}

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
