"""The JIT: the model asks for what is missing, and gets it in the middle of the turn."""

from rehydrate.runtime.jit.answered import Answered
from rehydrate.runtime.jit.jit import ContextJIT

__all__ = ["Answered", "ContextJIT"]
