"""warm_up: warmed parts are not loaded again, and nothing is loaded on the event loop."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

import rehydrate
from rehydrate import Memory, warm_up
from rehydrate.agent import AnthropicModel, OpenAIChatModel
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.testing import ScriptedModel
from tests.stress.programs import run_python

SDKS = ("anthropic", "openai")
has_sdks = pytest.mark.skipif(
    not all(map(find_spec, SDKS)), reason="the SDKs are in the group `test`"
)


def names(warmed: rehydrate.process.WarmUp) -> list[str]:
    return [part.name for part in warmed.parts]


def test_what_comes_after_it_imports_nothing_of_this_package_and_no_numpy():
    ended = run_python(
        """
        import sys
        import rehydrate
        rehydrate.warm_up()
        from rehydrate.testing import ScriptedModel, call
        loaded = set(sys.modules)
        from rehydrate.agent import Interpreter

        messages = [{"role": "user", "content": "Which port is open? " * 50},
                    {"role": "assistant", "content": "Port 8443. " * 50},
                    {"role": "user", "content": "Go on."}]
        rehydrate.compact_context(messages, "port", 0.5)
        context = rehydrate.Context(system="x", budget=rehydrate.Budget(soft_tokens=200))
        context.add(*messages)
        context.prompt()
        model = ScriptedModel([call("request_context", query="port"), "Berth 4."])
        Interpreter(model).run(rehydrate.Context(), "Which berth?")
        print(sorted(name for name in set(sys.modules) - loaded
                     if name.partition(".")[0] in ("rehydrate", "numpy", "anyio", "asyncio")))
        """
    )
    assert (ended.code, ended.out, ended.err) == (0, "[]\n", "")


def test_it_says_what_it_warmed_and_how_long_it_took():
    warmed = warm_up()
    assert names(warmed) == ["context", "embedder", "agent"]
    assert all(part.elapsed_ms >= 0 and not part.error for part in warmed.parts)
    assert warmed.elapsed_ms >= max(part.elapsed_ms for part in warmed.parts)


def test_many_threads_may_call_it_and_as_often_as_they_like():
    with ThreadPoolExecutor(6) as pool:
        warmed = list(pool.map(lambda _: warm_up(), range(12)))
    assert [names(each) for each in warmed] == [["context", "embedder", "agent"]] * 12
    assert not any(each.failed for each in warmed)


def test_nothing_of_it_is_kept(tmp_path: Path):
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        memory.add(["Staging listens on port 8443."], source="notes")
        before = memory.stats()
        warm_up(memories=[memory])
        assert memory.stats() == before


def test_memories_are_searched_once_bound_or_not(tmp_path: Path):
    with Memory.open(tmp_path / "memory.db") as memory:
        warmed = warm_up(memories=[memory, memory.within("alice")])
    assert names(warmed)[3:] == ["memory 0", "memory alice"]
    assert not warmed.failed


def test_what_fails_is_named_without_its_words_and_stops_nothing(tmp_path: Path):
    def embed(texts: list[str]) -> list[list[float]]:
        raise ConnectionError("password=hunter2")

    memory = Memory.open(tmp_path / "memory.db", namespace="alice")
    memory.close()
    warmed = warm_up(embedder=embed, memories=[memory])
    assert [part.name for part in warmed.failed] == ["embedder", "memory alice"]
    assert "hunter2" not in str(warmed)
    assert names(warmed)[2] == "agent"


def test_a_model_without_an_sdk_has_nothing_to_load():
    assert not warm_up(models=[ScriptedModel(["x"])]).failed


def test_an_sdk_that_it_does_not_know_or_that_is_missing_is_refused(monkeypatch):
    with pytest.raises(InvalidArgumentError, match="'openia'; choose among anthropic, openai"):
        warm_up(sdks=["openia"])
    with pytest.raises(InvalidArgumentError, match="embedder"):
        warm_up(embedder=17)
    monkeypatch.setattr("rehydrate.process.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="openai"):
        warm_up(sdks=["openai"])


@has_sdks
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_awaited_it_makes_the_loops_own_client_too(backend: str):
    models = [AnthropicModel("a", api_key="x"), OpenAIChatModel("b", api_key="x")]

    async def main() -> None:
        warmed = await rehydrate.awarm_up(models=models, sdks=SDKS)
        assert names(warmed)[3:] == ["sdk anthropic", "sdk openai", "model a", "model b"]
        assert not warmed.failed
        for model in models:
            (client,) = [client for client, _ in model._clients._by_loop.values()]
            assert await model._clients.current() is client
            await model.aclose()

    anyio.run(main, backend=backend)


@has_sdks
def test_a_model_that_has_no_key_is_named(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (failed,) = warm_up(models=[OpenAIChatModel("b")]).failed
    assert failed.name == "model b"
    assert failed.error


@has_sdks
@pytest.mark.parametrize(("sdk", "given"), [("anthropic", "made"), ("openai", "given")])
def test_the_first_turn_of_a_process_imports_the_sdk_beside_the_loop(sdk: str, given: str):
    ended = run_python(_FIRST_TURN, sdk, given)
    assert (ended.code, ended.out) == (0, "failed True\n")
    assert ended.err.startswith("a turn failed: ") and ended.err.count("\n") == 1


_FIRST_TURN = """
import importlib.abc, sys, threading
import anyio
from rehydrate import Context
from rehydrate.agent import AnthropicModel, Interpreter, OpenAIResponsesModel, Retry

sdk, given = sys.argv[1:]
imported = {}

class Watching(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith(sdk + ".resources.") or (name == sdk and given == "made"):
            imported.setdefault(name, threading.get_ident())

kind, provider, cls = {
    "anthropic": (AnthropicModel, "anthropic", "AsyncAnthropic"),
    "openai": (OpenAIResponsesModel, "openai_responses", "AsyncOpenAI"),
}[sdk]
closed = "http://127.0.0.1:9"
if given == "given":
    client = getattr(__import__(sdk), cls)(api_key="x", base_url=closed)
    options = {"client": client}
else:
    options = {"api_key": "x", "base_url": closed}

async def main():
    model = kind("m", **options)  # which looks whether the SDK is there
    sys.meta_path.insert(0, Watching())
    turn = await Interpreter(model, retry=Retry(attempts=1)).arun(
        Context(provider=provider), "Which berth?"
    )
    print(turn.stopped, bool(imported) and threading.get_ident() not in imported.values())
    await model.aclose()
    if given == "given":
        await client.close()

anyio.run(main)
"""


# The cache's own figure is the memory that the process holds; that of the texts is much larger.


PROGRAM = """
import ctypes, gc, json
from pathlib import Path
import rehydrate
from rehydrate import _native

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    # Not the library's own pages: the system takes those and gives them back.
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if "RssAnon" in line)

def chat(messages, name):
    roles = ("user", "assistant")
    return [
        {"role": roles[n % 2], "content": f"{name} has walked to house {n} in weather number "
         f"{n * 7919 % 1009}, bought {n % 17} apples there and then went home by tram {n % 31} "
         "as ever."}
        for n in range(messages)
    ]

# Python's own arenas are as large as they get before anything is weighed.
rehydrate.compact_context(chat(2_000, "Emily"), "apples and trams")
_native.clear_cache()
before, texts = resident(), 0
# So many that what the allocator holds once, up to 2.5 MB, is a small part.
for name in range(30):
    messages = chat(2_000, name)
    texts += sum(len(message["content"]) for message in messages)
    rehydrate.compact_context(messages, "apples and trams")
    del messages
print(json.dumps({
    "texts": texts,
    "held": resident() - before,
    "charged": _native.cached_bytes(),
}))
"""


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    if sys.platform != "linux":
        pytest.skip("resident memory is read from /proc")
    # Resident memory also depends on when the system takes pages back: the middle one of three.
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
        for _ in range(3)
    ]
    found: list[dict[str, int]] = [json.loads(run.stdout) for run in runs]
    return sorted(found, key=lambda figures: figures["held"])[1]


def test_the_cache_charges_what_the_process_holds(figures: dict[str, int]) -> None:
    assert 0.75 <= figures["held"] / figures["charged"] <= 1.25, figures


def test_a_cached_conversation_of_short_messages_takes_a_few_times_its_text(
    figures: dict[str, int],
) -> None:
    assert figures["held"] / figures["texts"] <= 3.5, figures
