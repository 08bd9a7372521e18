"""Completion by a model, outside the conversation: a prompt's text in, the reply's text out."""

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

Complete = Callable[[str], str]
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


def completion_of(store_model: Any) -> Complete | None:
    """Return the completion by what was given: a model, or a function of a text; None: by none."""
    if store_model is None:
        return None
    if is_model(store_model):
        return partial(reply_text, store_model)
    if callable(store_model):
        function: Complete = store_model
        return function
    raise InvalidArgumentError(
        f"store_model is of type {type(store_model).__name__}; pass a model, a function of the "
        "prompt's text that returns a text, or None"
    )
