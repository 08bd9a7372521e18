"""Records of a run: each prompt, each reply, and each answer of the JIT."""

from __future__ import annotations

from typing import Any, NamedTuple

from rehydrate.context import ContextJIT
from rehydrate.cost import PrefixReport
from rehydrate.prompt import CompiledPrompt
from tests.provider import StrictProvider


class SentPrompt(NamedTuple):
    """A prompt as the model got it, with the context's prefix report at that time."""

    prompt: CompiledPrompt
    prefix: PrefixReport | None
    compactions: int


class RecordingModel:
    """Passes prompts on to a model, and records prompts and replies."""

    def __init__(self, model: Any, context: Any, provider: StrictProvider, log: list) -> None:
        self.provider, self.name = model.provider, model.name
        self._model, self.context, self._server, self._log = model, context, provider, log
        self.prompts: list[SentPrompt] = []

    async def reply(self, prompt, *, on_text=None):
        if not self.prompts or self.prompts[-1].prompt is not prompt:  # else it is a retry
            context = self.context
            self.prompts.append(SentPrompt(prompt, context.prefix, context.usage.compactions))
        reply = await self._model.reply(prompt, on_text=on_text)
        replies = [
            each.reply
            for each in self._server.requests
            if each.billed is not None and not each.asks_for_summary
        ]
        self._log.append(("reply", replies[-1]))
        return reply


class RecordingJIT:
    """Passes calls on to a ContextJIT, and records its answers by the call's id."""

    def __init__(self, jit: ContextJIT, answers: dict[str, Any]) -> None:
        self._jit = jit
        self.handles = jit.handles
        self.answers = answers

    async def aanswer(self, call):
        answer = await self._jit.aanswer(call)
        self.answers[call.id] = answer
        return answer
