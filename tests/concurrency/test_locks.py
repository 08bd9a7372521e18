"""Shared embedders stay usable in a child that forked while other threads used them."""

from __future__ import annotations

import pytest

from tests.stress.programs import fork_amid, needs_fork, run_python

pytestmark = needs_fork


def test_a_lock_that_another_thread_holds_is_free_in_a_child_and_still_held_in_the_parent():
    ended = run_python(
        """
        import os, signal, threading
        from rehydrate._concurrency.locks import ForkSafeLock

        lock, held, over = ForkSafeLock(), threading.Event(), threading.Event()

        def hold():
            with lock:
                held.set()
                over.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        if (child := os.fork()) == 0:
            signal.alarm(60)  # a child that waits for ever is killed by it
            with lock:
                os._exit(7)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, lock._lock.locked())
        over.set()
        thread.join()
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "7 True\n", "")


@pytest.mark.parametrize(
    "held",
    [
        "named_models._models_lock",
        "model._lock",
        "model._breaker._lock",
        "embedder._state._lock",
        "embedder._state.breaker._lock",
        "own._functions_lock",
        "loops._Background._lock",
    ],
)
def test_a_child_embeds_whichever_lock_a_thread_of_its_parent_holds(held: str):
    ended = run_python(_EMBEDDING + _HOLDING, held)
    assert (ended.code, ended.out, ended.err) == (0, "7\n", "")


_EMBEDDING = """
import os, signal, sys, threading
import numpy as np
import rehydrate
from rehydrate._concurrency import loops
from rehydrate.embedding import embedder as own
from rehydrate.embedding import onnx as named_models

def embed(texts):
    return [[len(text) + 1.0, 1.0] for text in texts]

async def embed_later(texts):
    return embed(texts)

class Model:
    space = "a space"
    def embed(self, texts, *, deadline=None):
        return np.asarray(embed(texts), np.float32)

named_models.load_model = lambda name: Model()
model = named_models.NamedModel("a model")
named_models._models["org/a-model"] = model
embedder = rehydrate.Embedder(embed_later)
messages = [{"role": "user", "content": f"part_{n}.py failed"} for n in range(40)]

def use():
    for asked in (embedder, embed, named_models.named_model("org/a-model").model()):
        rehydrate.process.clear_cache()
        kept = rehydrate.compact_context(messages, "part_3", embedder=asked)
        assert kept.stats.embedding, kept.stats
"""

_HOLDING = """
taken, over = threading.Event(), threading.Event()

def hold(lock):
    with lock:
        taken.set()
        over.wait()

thread = threading.Thread(target=hold, args=(eval(sys.argv[1]),))
thread.start()
taken.wait()
if (child := os.fork()) == 0:
    signal.alarm(60)
    use()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
thread.join()
"""


def test_forking_while_other_threads_embed_leaves_no_child_waiting():
    ended = fork_amid(_EMBEDDING + "use()", "use()", "use()", threads=4, forks=25)
    assert (ended.code, ended.out, ended.err) == (0, "done\n", "")
