"""encodable: a request as UTF-8 can hold it.

Model, what answers a prompt; and Reply, its answer in the provider's own shape.

Checks that all models make alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from rehydrate.cost.prices import Usage
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import CompiledPrompt


def encodable(value: Any) -> Any:
    """The same value, where halves of surrogate pairs that no other half follows are U+FFFD.

    JSON escapes and file names can hold them, UTF-8 cannot: one in a history, and the SDK raises
    for every request from then on. The same text always becomes the same, so that a prefix holds.

    >>> encodable({"content": ["caf\\ud83d", "\\ud83d\\ude00"]})
    {'content': ['caf�', '😀']}
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {encodable(key): encodable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(inner) for inner in value]
    return value


Stop = Literal["answer", "calls", "length", "refusal", "pause"]
"""Why the model stopped: it is done, it calls tools, it ran out of output tokens, it (or a filter)
will not say it, or the provider's own tools paused and it goes on when it is asked again."""

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    entries: tuple[Any, ...]
    """What goes into the history, in the provider's own shape, as values that JSON has: Anthropic's
    and OpenAI chat's assistant message, Responses' output items; thinking, signatures and unknown
    blocks as they came."""
    text: str = ""
    """What it says to the user."""
    calls: tuple[ToolCall, ...] = ()
    """The tools it calls, in order."""
    usage: Usage = Usage()  # noqa: RUF009  it is a tuple
    """What is billed for it."""
    stop: Stop = "answer"
    model: str = ""
    """The model that answered, as the provider names it."""
    id: str = ""
    """The response's, as the provider names it."""
    input_transformations: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """What the provider did to the prompt before the model saw it, where it was asked to say so:
    ``{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": ...}`` is a thinking
    block that it left out."""


@runtime_checkable
class Model(Protocol):
    """Anything that answers a prompt that was compiled for its provider."""

    @property
    def provider(self) -> Provider:
        """For whom its prompts are compiled."""

    @property
    def name(self) -> str:
        """The model's name, as the provider has it."""

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """The answer to a prompt.

        With ``on_text`` the answer is streamed: it is called with each piece of text as it comes.
        Raises ProviderError where there is no answer, and retries nothing itself: when to try again
        is the loop's to decide. Cancelling ends the request.
        """


def check_compiled_for(model: Model, prompt: CompiledPrompt) -> None:
    """A prompt in another provider's shape is a mistake in the program: say which."""
    if prompt.provider != model.provider:
        raise InvalidArgumentError(
            f"the prompt was compiled for {prompt.provider} and the model takes {model.provider}; "
            f"pass provider={model.provider!r} to Context or compile"
        )
