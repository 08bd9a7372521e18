"""Clients for models of Anthropic, OpenAI and compatible servers; model_of makes one by name."""

from __future__ import annotations

from typing import Any

from rehydrate.agent.models.anthropic import AnthropicModel
from rehydrate.agent.models.model import Model, Reply
from rehydrate.agent.models.openai_chat import OpenAIChatModel
from rehydrate.agent.models.openai_responses import OpenAIResponsesModel
from rehydrate.agent.models.sdk import SdkModel
from rehydrate.errors import InvalidArgumentError

__all__ = ["AnthropicModel", "Model", "OpenAIChatModel", "OpenAIResponsesModel", "Reply"]


_CLASSES: dict[str, type[SdkModel]] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIResponsesModel,
    "openai_chat": OpenAIChatModel,
}


def model_of(name: str, **options: Any) -> SdkModel:
    """Return a model by one string, such as ``anthropic:claude-opus-4-6`` in a settings file.

    ``openai:`` is the Responses API; ``openai_chat:`` is chat completions, of any server that
    speaks them with ``base_url=``. ``options`` are those of the class. Raises InvalidArgumentError
    for any other name.

    >>> model_of("openai_chat:qwen3", base_url="http://localhost:11434/v1")
    OpenAIChatModel('qwen3')
    """
    api, colon, model = name.partition(":")
    kind = _CLASSES.get(api)
    if kind is None or not colon or not model:
        names = ", ".join(f"'{each}:...'" for each in _CLASSES)
        raise InvalidArgumentError(f"model is {name!r}; choose one of {names}")
    return kind(model, **options)
