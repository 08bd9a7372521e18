"""Models: what answers a prompt.

model_of: a model from one string, as a setting or a command line has it.
"""

from __future__ import annotations

from typing import Any

from rehydrate.agent.models.anthropic import AnthropicModel
from rehydrate.agent.models.model import Model, Reply
from rehydrate.agent.models.openai_chat import OpenAIChatModel
from rehydrate.agent.models.openai_responses import OpenAIResponsesModel
from rehydrate.agent.models.sdk import SdkModel
from rehydrate.errors import InvalidArgumentError

__all__ = ["AnthropicModel", "Model", "OpenAIChatModel", "OpenAIResponsesModel", "Reply"]


_MODELS: dict[str, type[SdkModel]] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIResponsesModel,
    "openai_chat": OpenAIChatModel,
}


def model_of(name: str, **options: Any) -> SdkModel:
    """The model of a name such as ``anthropic:claude-opus-4-6``; ``options`` are its class's.

    ``openai:`` is the Responses API, ``openai_chat:`` chat completions and, with ``base_url=``,
    whatever server speaks them. Raises InvalidArgumentError for any other name.

    >>> model_of("openai_chat:qwen3", base_url="http://localhost:11434/v1")
    OpenAIChatModel('qwen3')
    """
    api, colon, model = name.partition(":")
    kind = _MODELS.get(api)
    if kind is None or not colon or not model:
        names = ", ".join(f"'{each}:...'" for each in _MODELS)
        raise InvalidArgumentError(f"model is {name!r}; choose one of {names}")
    return kind(model, **options)
