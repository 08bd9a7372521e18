"""What is heard on the way: each prompt that the model is asked, each reply, each answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from rehydrate.context import ContextJIT
from rehydrate.cost import PrefixReport
from rehydrate.prompt import CompiledPrompt
from tests.provider import StrictProvider


class Asked(NamedTuple):
    """A prompt as it went to the model, and what was said of its prefix then."""

    prompt: CompiledPrompt
    prefix: PrefixReport | None
    compactions: int


class HeardModel:
    """A model, and what passes through it."""

    def __init__(self, model: Any, context: Any, provider: StrictProvider, log: list) -> None:
        self.provider, self.name = model.provider, model.name
        self._model, self._context, self._server, self._log = model, context, provider, log
        self.asked: list[Asked] = []

    async def reply(self, prompt, *, on_text=None):
        if not self.asked or self.asked[-1].prompt is not prompt:  # else it is tried again
            context = self._context
            self.asked.append(Asked(prompt, context.prefix, context.usage.compactions))
        reply = await self._model.reply(prompt, on_text=on_text)
        answered = [each.says for each in self._server.requests if each.billed is not None]
        self._log.append(("reply", answered[-1]))
        return reply


class HeardJIT:
    """A ContextJIT, and what it answered, by the call's id."""

    def __init__(self, jit: ContextJIT) -> None:
        self._jit = jit
        self.handles = jit.handles
        self.answered: dict[str, Any] = {}

    async def aanswer(self, call):
        answered = await self._jit.aanswer(call)
        self.answered[call.id] = answered
        return answered
