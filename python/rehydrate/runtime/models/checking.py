"""Checks that all models make alike."""

from __future__ import annotations

from rehydrate.errors import InvalidArgumentError
from rehydrate.ir import CompiledPrompt
from rehydrate.runtime.models.model import Model


def check_compiled_for(model: Model, prompt: CompiledPrompt) -> None:
    """A prompt in another provider's shape is a mistake in the program: say which."""
    if prompt.provider != model.provider:
        raise InvalidArgumentError(
            f"the prompt was compiled for {prompt.provider} and the model takes {model.provider}; "
            f"pass provider={model.provider!r} to Context or compile"
        )
