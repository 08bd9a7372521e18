"""ScriptedModel: a model whose answers are written beforehand, for tests and demos."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import repeat
from typing import Any, TypeAlias

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.agent.models.model import OnText, Reply, check_compiled_for
from rehydrate.cost.prices import Price, Usage, minimum_prefix
from rehydrate.cost.simulation import PromptCache
from rehydrate.errors import InvalidArgumentError, RequestRefusedError
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import PROVIDERS, Provider
from rehydrate.prompt.compiled import CompiledPrompt
from rehydrate.tokens import count_tokens

# What it costs is nobody's business here: only how the provider's cache works.
_CACHES: Mapping[Provider, Price] = {
    "anthropic": Price(3, 15),
    "openai_chat": Price(1, 5, write=1.0, automatic=True, step_tokens=128),
    "openai_responses": Price(1, 5, write=1.0, automatic=True, step_tokens=128),
}


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call of a tool that the script has the model make."""

    name: str
    arguments: Mapping[str, Any]


def call(name: str, /, **arguments: Any) -> ScriptedCall:
    """A tool call for a script.

    >>> call("ls", path="src")
    ScriptedCall(name='ls', arguments={'path': 'src'})
    """
    return ScriptedCall(name, arguments)


Scripted: TypeAlias = (
    str | ScriptedCall | Sequence[str | ScriptedCall] | Reply | Exception | type[Exception]
)
"""One reply of a script: a text, a call, texts and calls in order, a Reply as it is, or what is
raised instead."""
Script: TypeAlias = Callable[[CompiledPrompt], Scripted | Awaitable[Scripted]]
"""A reply that depends on the prompt."""


class ScriptedModel:
    """Answers as the script says, in the shape of the provider that it stands for.

    ``replies`` are what it answers, one after the other: each a text, a `call`, a list of these, an
    exception to raise, a `Reply` to give as it is, or a function of the prompt, sync or async, that
    gives one of these. A function in place of the list answers every prompt. Asked once more than
    it has replies, it raises RequestRefusedError. Any number of conversations may use it at once;
    which gets the next reply is then a matter of who asks first.

    Its ids depend on the prompt alone, so that they are the same in every run and no two in a
    conversation are. Its usage is what the prompt's tokens would be billed by a provider with a
    cache that it has for itself.

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
        """Take the script, and for whom its prompts are compiled."""
        if provider not in PROVIDERS:
            names = ", ".join(map(repr, PROVIDERS))
            raise InvalidArgumentError(f"provider is {provider!r}; choose one of {names}")
        if isinstance(replies, str):
            raise InvalidArgumentError("replies is a string; pass a list of replies: [text]")
        self._provider: Provider = provider
        self._name = name
        self._script: Iterator[Scripted | Script] = (
            repeat(replies) if callable(replies) else iter(replies)
        )
        self._cache: PromptCache | None = None
        self._lock = ForkSafeLock()
        self._given = 0
        self.prompts: list[CompiledPrompt] = []
        """What it was asked, in order."""

    @property
    def provider(self) -> Provider:
        """For whom its prompts are compiled."""
        return self._provider

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """The script's next reply; with ``on_text`` its text comes word by word."""
        import anyio.lowlevel

        check_compiled_for(self, prompt)
        await anyio.lowlevel.checkpoint()
        said: Any = self._next(prompt)
        if callable(said) and not isinstance(said, type):
            said = said(prompt)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, BaseException) or _is_exception_type(said):
            raise said
        reply = said if isinstance(said, Reply) else self._reply(_parts(said), prompt)
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
            for said in self._script:
                self._given += 1
                return said
            count = self._given
        replies = "1 reply" if count == 1 else f"{count} replies"
        raise RequestRefusedError(
            self._name,
            None,
            f"the script is over after {replies}; give it one more, or a function that answers "
            "every prompt",
        )

    def _reply(self, parts: Sequence[str | ScriptedCall], prompt: CompiledPrompt) -> Reply:
        ids = _Ids(prompt)
        texts = tuple([part for part in parts if isinstance(part, str)])
        entries, calls = _WRITERS[self._provider](parts, ids)
        return Reply(
            tuple(entries),
            "".join(texts),
            tuple(filter(None, map(ToolCall.read, calls))),
            stop="calls" if calls else "answer",
            model=self._name,
            id=ids.next("resp"),
        )

    def _billed(self, reply: Reply, prompt: CompiledPrompt) -> Reply:
        with self._lock:
            if self._cache is None:
                minimum = minimum_prefix(prompt.model or self._name)
                self._cache = PromptCache(_CACHES[self._provider], "5m", minimum)
            usage = self._cache.send(prompt.segments, 0.0)
        arguments = [call.raw_arguments for call in reply.calls]
        output = count_tokens(reply.text) + sum(count_tokens(_json(each)) for each in arguments)
        return replace(reply, usage=usage._replace(output=output))


class _Ids:
    """Ids that are the same whenever the same prompt is answered, and different for all others."""

    def __init__(self, prompt: CompiledPrompt) -> None:
        digests = "".join([segment.digest for segment in prompt.segments])
        self._prompt = blake2b(digests.encode(), digest_size=6).hexdigest()
        self._count = 0

    def next(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._prompt}{self._count:02d}"


_Written: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""What goes into the history, and the calls that are in it."""


def _anthropic(parts: Sequence[str | ScriptedCall], ids: _Ids) -> _Written:
    blocks = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {
            "type": "tool_use",
            "id": ids.next("toolu"),
            "name": part.name,
            "input": dict(part.arguments),
        }
        for part in parts
    ]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    return [{"role": "assistant", "content": blocks}] if blocks else [], calls


def _openai_chat(parts: Sequence[str | ScriptedCall], ids: _Ids) -> _Written:
    text = "".join([part for part in parts if isinstance(part, str)])
    calls = [
        {
            "id": ids.next("call"),
            "type": "function",
            "function": {"name": part.name, "arguments": _json(part.arguments)},
        }
        for part in parts
        if isinstance(part, ScriptedCall)
    ]
    message = {"role": "assistant", "content": text or None}
    return [message | ({"tool_calls": calls} if calls else {})] if parts else [], calls


def _openai_responses(parts: Sequence[str | ScriptedCall], ids: _Ids) -> _Written:
    items: list[dict[str, Any]] = [
        {
            "type": "message",
            "id": ids.next("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": part, "annotations": []}],
        }
        if isinstance(part, str)
        else {
            "type": "function_call",
            "id": ids.next("fc"),
            "call_id": ids.next("call"),
            "name": part.name,
            "arguments": _json(part.arguments),
            "status": "completed",
        }
        for part in parts
    ]
    return items, [item for item in items if item["type"] == "function_call"]


_WRITERS: Mapping[Provider, Callable[[Sequence[str | ScriptedCall], _Ids], _Written]] = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
}


def _parts(said: Any) -> Sequence[str | ScriptedCall]:
    """Texts and calls of a reply; an empty text is nothing."""
    parts = [said] if isinstance(said, (str, ScriptedCall)) else said
    if not isinstance(parts, Sequence):
        raise _no_reply(said)
    for part in parts:
        if not isinstance(part, (str, ScriptedCall)):
            raise _no_reply(part)
    return [part for part in parts if part != ""]


def _is_exception_type(said: Any) -> bool:
    return isinstance(said, type) and issubclass(said, BaseException)


def _no_reply(said: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the script has a reply of type {type(said).__name__}; give a text, call(...), a list of "
        "these, a Reply, an exception, or a function that gives one of them"
    )


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
