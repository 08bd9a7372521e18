"""Model: what answers a prompt; Reply: its answer, in the provider's own shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from rehydrate._text import as_unicode
from rehydrate.cost.prices import Usage
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider
from rehydrate.prompt.ir import CompiledPrompt

Stop = Literal["answer", "calls", "length", "refusal", "pause"]
"""Why the model stopped: its answer is complete; it calls tools; it ran out of output tokens; it or
a filter refused; the provider's own tools paused, and the model goes on when it is asked again."""

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply to one prompt."""

    entries: tuple[Any, ...]
    """Entries for the history, in the provider's own shape, as JSON values: the assistant message
    of Anthropic or OpenAI chat, the output items of Responses. Thinking, signatures and unknown
    blocks are unchanged."""
    text: str = ""
    """The text for the user."""
    calls: tuple[ToolCall, ...] = ()
    """The tool calls, in order."""
    usage: Usage = Usage()  # noqa: RUF009  it is a tuple
    """The tokens that it is billed for."""
    stop: Stop = "answer"
    model: str = ""
    """The model that replied, as the provider names it."""
    id: str = ""
    """The response's id, as the provider names it."""
    input_transformations: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """Changes that the provider made to the prompt, if it was asked to report them:
    ``{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": ...}`` is a thinking
    block that it left out."""


@runtime_checkable
class Model(Protocol):
    """Anything that replies to a prompt that was compiled for its provider."""

    @property
    def provider(self) -> Provider:
        """The provider for which its prompts are compiled."""

    @property
    def name(self) -> str:
        """The model's name, as the provider has it."""

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """Return the reply to a prompt.

        With ``on_text`` the reply is streamed: ``on_text`` gets each piece of text as it arrives.
        Raises ProviderError if there is no reply. It must not retry: the agent loop does.
        Cancelling ends the request.
        """


def check_compiled_for(model: Model, prompt: CompiledPrompt) -> None:
    """Raise InvalidArgumentError for a prompt that was compiled for another provider."""
    if prompt.provider != model.provider:
        raise InvalidArgumentError(
            f"the prompt was compiled for {prompt.provider} and the model takes {model.provider}; "
            f"pass provider={model.provider!r} to Context or compile"
        )


def without_lone_surrogates(value: Any) -> Any:
    """Return a JSON value with U+FFFD in place of each lone surrogate, which UTF-8 cannot encode.

    JSON escapes and file names may hold them. With one in the history, the SDK would raise for
    every request from then on. The same text always gives the same result, so a cached prefix
    stays valid.

    >>> without_lone_surrogates({"content": ["caf\\ud83d", "\\ud83d\\ude00"]})
    {'content': ['caf�', '😀']}
    """
    if isinstance(value, str):
        return as_unicode(value)
    if isinstance(value, dict):
        return {
            without_lone_surrogates(key): without_lone_surrogates(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_lone_surrogates(item) for item in value]
    return value
