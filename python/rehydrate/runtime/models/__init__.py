"""Models: what answers a prompt."""

from rehydrate.runtime.models.anthropic import AnthropicModel
from rehydrate.runtime.models.model import Model, Reply
from rehydrate.runtime.models.openai_chat import OpenAIChatModel
from rehydrate.runtime.models.openai_responses import OpenAIResponsesModel
from rehydrate.runtime.models.scripted import ScriptedModel, call

__all__ = [
    "AnthropicModel",
    "Model",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "Reply",
    "ScriptedModel",
    "call",
]
