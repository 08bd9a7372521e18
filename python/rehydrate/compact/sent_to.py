"""For whom what is kept is sent: a list of one shape may go to another's model behind a gateway."""

from __future__ import annotations

from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation

PROVIDERS = ("anthropic", "openai_chat", "openai_responses")
"""Whose rules a list may have to keep."""

_ANYONES = frozenset({"openai_chat", "langchain", "plain"})
_OWN = {"claude_code": "anthropic"}


def sent_to(conversation: Conversation, provider: str | None, model: str) -> Conversation:
    """The conversation under the rule of whom it is for: Anthropic wants the user first.

    Without a provider a Claude is Anthropic's, and everything else takes the list's own rule. Only
    shapes that are sent to anyone may be for another than their own provider.
    """
    if conversation.format in _ANYONES:
        if provider is None and "claude" in model.lower():
            provider = "anthropic"
        if provider is None:
            return conversation
        return conversation._replace(user_first=provider == "anthropic")
    own = _OWN.get(conversation.format, conversation.format)
    if provider not in (None, own):
        raise InvalidArgumentError(
            f"provider is {provider!r}, and the messages are {own}'s; compile a Context for "
            "another provider, or leave it out"
        )
    return conversation
