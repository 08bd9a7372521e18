"""failure_text: what the log says of a turn that failed, and what to do about it."""

from __future__ import annotations

import re

from rehydrate._text import logged_type
from rehydrate.errors import (
    BudgetExceededError,
    ContextOverflowError,
    InvalidConversationError,
    ProviderError,
    ProviderUnavailableError,
    RateLimitError,
)

_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY or the model's api_key",
    "openai_chat": "OPENAI_API_KEY or the model's api_key",
    "openai_responses": "OPENAI_API_KEY or the model's api_key",
    "gemini": "GEMINI_API_KEY or the model's api_key",
    "bedrock": "AWS's credentials",
}
_KEYLESS = re.compile("api_key|API key|credentials|authentication method")
_CAUSES: dict[type[ProviderError], str] = {
    ContextOverflowError: "the prompt is too long for the model; lower the budget of the Context",
    RateLimitError: "too much was asked of it for now; try again later, or raise Retry(attempts=)",
    ProviderUnavailableError: "it is down, overloaded or out of reach; try again later, or check "
    "base_url and the network",
}


def failure_text(error: Exception, model: str) -> str:
    """Return the cause and the remedy in our own words: a provider's may hold private ones.

    >>> from rehydrate.errors import RequestRefusedError
    >>> failure_text(RequestRefusedError("anthropic", 401, "invalid x-api-key"), "claude-opus-5")
    "anthropic answered 401: it refuses the key; check ANTHROPIC_API_KEY or the model's api_key"
    """
    kind = logged_type(error, "turn")
    if isinstance(error, BudgetExceededError):  # without its figures, which differ each time
        return f"{error.subject} needs more tokens than {error.limit} allows; turn.error says more"
    if isinstance(error, InvalidConversationError):
        rules = ", ".join(sorted({violation.rule for violation in error.violations}))
        return f"the provider would refuse the messages ({rules}); turn.error names each"
    if not isinstance(error, ProviderError):
        return f"{kind}; turn.error says more"
    said = "gave no answer" if error.status is None else f"answered {error.status}"
    return f"{error.provider} {said}: {_cause(error, model)}"


def _cause(error: ProviderError, model: str) -> str:
    key = _KEYS.get(error.provider, "the model's key")
    if error.status is None and error.message.startswith("nothing was sent"):
        is_keyless = _KEYLESS.search(error.message)
        return f"there is no key; set {key}" if is_keyless else "it isn't sent; turn.error says why"
    if error.status == 401:
        return f"it refuses the key; check {key}"
    if error.status == 403:
        return f"the key isn't allowed to do this; check {key}"
    if error.status == 404:
        return f"it has no model {model!r}, or base_url is wrong"
    found = (text for kind, text in _CAUSES.items() if isinstance(error, kind))
    return next(found, "it refuses the request; turn.error says why")
