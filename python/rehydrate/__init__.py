"""Rehydrate: the context engine for LLM agents.

It decides what a model sees each turn. ``compact_context`` makes a long conversation fit a token
budget in milliseconds. It keeps what matters for what comes next, byte for byte, whole messages or
excerpts of long ones, and returns a conversation that the provider accepts.

The names an agent needs every day are here. The rest is one level down: ``rehydrate.errors``,
``.memory``, ``.prompt``, ``.agent``, ``.batch``, ``.cost``, ``.context``, ``.compact``,
``.formats``, ``.embedding``, ``.linting``, ``.retention``, ``.testing``.
"""

from typing import TYPE_CHECKING

from rehydrate._distributions import ROOMS as _ROOMS  # it also finds what is missing
from rehydrate._front import front
from rehydrate._native import __version__ as __version__

if TYPE_CHECKING:
    from rehydrate.agent import Interpreter as Interpreter
    from rehydrate.compact import (
        Compaction as Compaction,
        Scoring as Scoring,
        acompact_context as acompact_context,
        compact_context as compact_context,
    )
    from rehydrate.context import Context as Context, ContextJIT as ContextJIT
    from rehydrate.embedding import Embedder as Embedder, load_model as load_model
    from rehydrate.errors import RehydrateError as RehydrateError
    from rehydrate.formats import detect_format as detect_format, validate as validate
    from rehydrate.linting import lint as lint
    from rehydrate.memory import Memory as Memory
    from rehydrate.process import awarm_up as awarm_up, warm_up as warm_up
    from rehydrate.prompt import (
        Budget as Budget,
        CompiledPrompt as CompiledPrompt,
        ContextRequest as ContextRequest,
        ContextStrategy as ContextStrategy,
        HydrationSource as HydrationSource,
        PromptIR as PromptIR,
        Section as Section,
        acompile as acompile,
        ahydrate as ahydrate,
        compile as compile,  # noqa: A004  the contract's word
        hydrate as hydrate,
    )
    from rehydrate.tokens import count_tokens as count_tokens, estimate_tokens as estimate_tokens

__all__, __dir__, __getattr__ = front(__name__, rooms=_ROOMS)

# Compaction loads at once. Its first call may come from a signal handler or right after a fork;
# there, an import that another frame or thread has begun would never end.
from rehydrate.compact import api as _api  # noqa: E402, F401
