"""Asking a model for a text, outside the conversation: the text of a prompt in, its reply out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rehydrate._text import OwnMessageError
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.compiler import compile as compile_ir
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.request import Budget, ContextRequest

if TYPE_CHECKING:
    from rehydrate.agent.models.model import Model

AskModel = Callable[[str], str]
"""A function of the text of a prompt that returns the text of the answer."""


class UnfinishedReplyError(OwnMessageError):
    """A reply that is not whole."""


def is_model(given: Any) -> bool:
    """Return whether it is a model of this package, or one like it."""
    return callable(getattr(given, "reply", None)) and hasattr(given, "provider")


def reply_text(model: Model, text: str) -> str:
    """Return a model's reply to a text; raises UnfinishedReplyError for one that is refused or cut
    off, and what the model raises. Not for an event loop's thread: it runs one of its own."""
    import anyio

    limit = 2**31
    budget = Budget(soft_tokens=limit, hard_tokens=limit)
    ir = PromptIR(ContextRequest(text, budget=budget))
    prompt = compile_ir(ir, model.provider, model=model.name)
    reply = anyio.run(model.reply, prompt)
    if reply.stop != "answer":
        raise UnfinishedReplyError(f"the model did not finish: {reply.stop}")
    return reply.text


def ask_of(name: str, given: Any) -> AskModel | None:
    """Return how to ask what was given: a model, or a function of a text; None: there is none."""
    if given is None:
        return None
    if is_model(given):
        return partial(reply_text, given)
    if callable(given):
        function: AskModel = given
        return function
    raise InvalidArgumentError(
        f"{name} is of type {type(given).__name__}; pass a model, a function of the prompt's text "
        "that returns a text, or None"
    )
