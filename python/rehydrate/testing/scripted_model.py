"""ScriptedModel: a model with scripted answers, for tests and demos."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import repeat
from typing import Any, TypeAlias

from rehydrate import _native
from rehydrate._check import check_choice
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.agent.model import OnText, Reply, check_compiled_for
from rehydrate.cost.prices import Price, Usage, minimum_prefix
from rehydrate.errors import InvalidArgumentError, RequestRefusedError
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider
from rehydrate.prompt.ir import CompiledPrompt
from rehydrate.prompt.request import NO_POLICY
from rehydrate.tokens import count_tokens

# The price does not matter here; only the rules of the provider's cache do.
_CACHES: Mapping[Provider, Price] = {
    "anthropic": Price(3, 15),
    "bedrock": Price(3, 15),
    "gemini": Price(1, 5, write=1.0, automatic=True),
    "ai_sdk": Price(1, 5, write=1.0, automatic=True),
    "openai_chat": Price(1, 5, write=1.0, automatic=True, step_tokens=128),
    "openai_responses": Price(1, 5, write=1.0, automatic=True, step_tokens=128),
}


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call that the script makes the model do."""

    name: str
    arguments: Mapping[str, Any]


def call(name: str, /, **arguments: Any) -> ScriptedCall:
    """Return a tool call for a script.

    >>> call("ls", path="src")
    ScriptedCall(name='ls', arguments={'path': 'src'})
    """
    return ScriptedCall(name, arguments)


Scripted: TypeAlias = (
    str | ScriptedCall | Sequence[str | ScriptedCall] | Reply | Exception | type[Exception]
)
"""One reply of a script: a text, a call, texts and calls in order, a Reply unchanged, or an error
to raise."""
Script: TypeAlias = Callable[[CompiledPrompt], Scripted | Awaitable[Scripted]]
"""A reply that depends on the prompt."""


class ScriptedModel:
    """Answers as the script says, in the shape of a provider.

    ``replies`` are its answers in order. Each is a text, a `call`, a list of these, an exception to
    raise, a `Reply` to return as it is, or a function of the prompt, sync or async, that returns
    one of these. One function in place of the list answers every prompt. After the last reply it
    raises RequestRefusedError. Any number of conversations may use it at once; the first to ask
    gets the next reply.

    Its ids depend only on the prompt: they are the same in every run, and unique in a conversation.
    Its usage is the bill of a provider whose cache it has for itself.

    >>> import anyio
    >>> from rehydrate import Context
    >>> context = Context(system="You are the harbour's assistant.")
    >>> model = ScriptedModel([call("book", berth=4), "Booked."])
    >>> reply = anyio.run(model.reply, context.prompt("Book berth 4."))
    >>> reply.stop, reply.calls[0].name, reply.calls[0].arguments()
    ('calls', 'book', {'berth': 4})
    """

    def __init__(
        self,
        replies: Iterable[Scripted | Script] | Script,
        *,
        provider: Provider = "anthropic",
        name: str = "scripted",
    ) -> None:
        """Take the script, and the provider for which its prompts are compiled."""
        check_choice("provider", provider, tuple(_CACHES))
        if isinstance(replies, str):
            raise InvalidArgumentError("replies is a string; pass a list of replies: [text]")
        self._provider: Provider = provider
        self._name = name
        self._script: Iterator[Scripted | Script] = (
            repeat(replies) if callable(replies) else iter(replies)
        )
        self._cache: _native.PromptCache | None = None
        self._lock = ForkSafeLock()
        self._given = 0
        self.prompts: list[CompiledPrompt] = []
        """The prompts it was given, in order."""

    @property
    def provider(self) -> Provider:
        """The provider for which its prompts are compiled."""
        return self._provider

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """Return the script's next reply; with ``on_text`` its text comes word by word."""
        import anyio.lowlevel

        check_compiled_for(self, prompt)
        await anyio.lowlevel.checkpoint()
        scripted: Any = self._next(prompt)
        if callable(scripted) and not isinstance(scripted, type):
            scripted = scripted(prompt)
        if inspect.isawaitable(scripted):
            scripted = await scripted
        if isinstance(scripted, BaseException) or _is_exception_type(scripted):
            raise scripted
        reply = scripted if isinstance(scripted, Reply) else self._reply(_parts(scripted), prompt)
        if reply.usage == Usage():
            reply = self._billed(reply, prompt)
        if on_text is not None:
            for piece in re.findall(r"\s*\S+\s*", reply.text):
                on_text(piece)
                await anyio.lowlevel.checkpoint()
        return reply

    def _next(self, prompt: CompiledPrompt) -> Scripted | Script:
        with self._lock:
            self.prompts.append(prompt)
            for reply in self._script:
                self._given += 1
                return reply
            count = self._given
        replies = "1 reply" if count == 1 else f"{count} replies"
        raise RequestRefusedError(
            self._name,
            None,
            f"the script is over after {replies}; give it one more, or a function that answers "
            "every prompt",
        )

    def _reply(self, parts: Sequence[str | ScriptedCall], prompt: CompiledPrompt) -> Reply:
        # The ids are the same for the same prompt, and different for all others.
        digests = "".join([segment.digest for segment in prompt.segments])
        of_prompt = blake2b(digests.encode(), digest_size=6).hexdigest()
        entries, calls, reply_id = _native.scripted_reply(self._provider, parts, of_prompt)
        return Reply(
            tuple(entries),
            "".join([part for part in parts if isinstance(part, str)]),
            tuple(filter(None, map(ToolCall.read, calls))),
            stop="calls" if calls else "answer",
            model=self._name,
            id=reply_id,
        )

    def _billed(self, reply: Reply, prompt: CompiledPrompt) -> Reply:
        with self._lock:
            if self._cache is None:
                minimum = minimum_prefix(prompt.model or self._name)
                self._cache = _native.PromptCache(_CACHES[self._provider], "5m", minimum, NO_POLICY)
            _, usage = self._cache.send(prompt.segments, 0.0)
        arguments = [call.raw_arguments for call in reply.calls]
        output = count_tokens(reply.text) + sum(count_tokens(_json(each)) for each in arguments)
        return replace(reply, usage=usage._replace(output=output))


def _parts(scripted: Any) -> Sequence[str | ScriptedCall]:
    """Return texts and calls of a reply; an empty text is dropped."""
    parts = [scripted] if isinstance(scripted, (str, ScriptedCall)) else scripted
    if not isinstance(parts, Sequence):
        raise _no_reply(scripted)
    for part in parts:
        if not isinstance(part, (str, ScriptedCall)):
            raise _no_reply(part)
    return [part for part in parts if part != ""]


def _is_exception_type(scripted: Any) -> bool:
    return isinstance(scripted, type) and issubclass(scripted, BaseException)


def _no_reply(item: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the script has a reply of type {type(item).__name__}; give a text, call(...), a list of "
        "these, a Reply, an exception, or a function that gives one of them"
    )


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
