"""The pages of docs/: tables are complete, names exist, figures are those of the code."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from inspect import signature
from typing import get_args

import rehydrate
from rehydrate import Context, Memory, errors
from rehydrate._concurrency.workers import COMPUTING, STORING
from rehydrate._text import NOTHING
from rehydrate.agent import Event, Stopped, TurnLimits, anthropic
from rehydrate.agent.tool_calls import MAX_HANGING_CALLS, UNKNOWN_EFFECT
from rehydrate.context import parse_time_range
from rehydrate.context.prompt_builder import INLINE_MS
from rehydrate.linting import RULES
from rehydrate.process import DEFAULT_LIMIT_BYTES
from rehydrate.prompt import HydrateOptions, sources
from rehydrate.prompt.hydration import MAX_ABANDONED
from rehydrate.prompt.sources.knowledge import FOLDER_SUFFIXES
from rehydrate.prompt.sources.source import TIMEOUT
from rehydrate.rpc import serve
from tests.stress.programs import ROOT

NOW = datetime(2026, 11, 24, 15, 40, tzinfo=UTC)


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_every_event_and_every_end_of_an_agent_is_in_a_table():
    rows = set(re.findall(r"^\| ([^|]*) \|", page("agent"), re.MULTILINE))
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {each.name for each in Event.__subclasses__()} | set(get_args(Stopped)) <= named


def test_the_texts_that_the_model_reads_are_quoted():
    agent = page("agent")
    assert f'"{NOTHING}"' in agent
    assert UNKNOWN_EFFECT in agent
    assert f"{MAX_HANGING_CALLS} calls of one tool" in agent
    assert f"`TurnLimits.steps` times ({TurnLimits().steps})" in agent


def test_every_rule_of_the_linter_is_in_the_table():
    assert re.findall(r"^\| `(\w+)` \|", page("cache"), re.M) == list(RULES)


def test_every_method_and_error_that_the_page_of_memories_names_exists():
    methods = set(re.findall(r"\bmemory\.(\w+)\(", page("memory"))) - {"db"}
    assert {"add", "search", "sync_folder", "hot", "export_items", "import_items"} <= methods
    assert [name for name in methods if not hasattr(Memory, name)] == []
    named = set(re.findall(r"`(\w+Error)`", page("memory")))
    assert len(named) > 8
    assert [name for name in named if not hasattr(errors, name)] == []


def test_every_source_and_every_option_is_in_a_table():
    rows = set(re.findall(r"^\| `(\w+)", page("hydrate"), re.M))
    makers = {name for name in sources.__all__ if name[0].islower()}
    assert makers | set(HydrateOptions.__annotations__) - {"format"} <= rows


def test_every_option_of_warm_up_is_in_its_table():
    options = set(re.findall(r"^\| `(\w+)=", page("server"), re.MULTILINE))
    assert options == set(signature(rehydrate.warm_up).parameters)


def test_figures_are_those_of_the_code():
    hydrate, server = page("hydrate"), page("server")
    assert f"{TIMEOUT:g} s from the call" in hydrate
    assert f"{MAX_ABANDONED} late calls" in hydrate
    assert all(f"`{suffix}`" in hydrate for suffix in FOLDER_SUFFIXES)
    assert f"at most {INLINE_MS:g} ms by estimate" in server
    assert f"{STORING.size} more are for memories" in server
    assert 2 <= COMPUTING.size <= 8
    assert f"the default is {DEFAULT_LIMIT_BYTES >> 20} MiB" in server
    assert f"{anthropic.MAX_TOKENS:,} unless named" in page("model-clients")


def test_what_the_server_page_says_never_waits_does_not():
    context = Context()
    with context._thread.lock:
        assert context.is_busy
        assert (context.history, context.ir, context.usage.prompts) == ([], None, 0)


def test_each_form_of_the_tables_of_times_is_read():
    rows = re.findall(r"^\| (`.*?) \|", page("request-context-times"), re.MULTILINE)
    forms = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(forms) > 40
    for written in forms:
        if written in ("this", "last"):
            written += " week"
        elif written in ("month", "year", "weekend"):
            written = f"last {written}"
        elif re.search(r"\b[ab]\b", written) and "ago" not in written:
            written = re.sub(r"\ba\b", "2026-02-01", re.sub(r"\bb\b", "2026-02-10", written))
        assert parse_time_range(written, NOW, "Europe/Berlin") != (None, None), written


# Remote procedure calls: the session of the page is run, and the replies are compared.


def replies(data: str) -> list[str]:
    written: list[str] = []
    stream = iter([data.encode(), b""])
    serve(lambda _size: next(stream), written.append)
    return written


def test_the_session_goes_as_the_page_says():
    (session,) = re.findall(r"```text\n(.*?)```", page("rpc"), re.S)
    lines = session.replace("VERSION", rehydrate.__version__).splitlines(keepends=True)
    asked = [line[2:] for line in lines if line.startswith("> ")]
    said = [line[2:] for line in lines if line.startswith("< ")]
    assert len(asked) + len(said) == len(lines)
    assert replies("".join(asked)) == said


def test_the_call_of_the_page_gives_the_result_of_the_page():
    request, shown = re.findall(r"```json\n(.*?)```", page("rpc"), re.S)
    (reply,) = replies(request)
    result = json.loads(reply)["result"]
    expected, found = json.loads(shown), result["structured"]
    assert found["messages"] == expected["messages"]
    del expected["stats"]["elapsed_ms"]
    assert {name: found["stats"][name] for name in expected["stats"]} == expected["stats"]
    assert result["structuredContent"] == json.loads(result["content"][0]["text"]) == found
    assert result["isError"] is False


def test_the_shell_example_of_the_page_is_a_request_that_works():
    (request,) = re.findall(r"^echo '(.*?)' \| rehydrate rpc$", page("rpc"), re.S | re.M)
    (reply,) = replies(request)
    assert json.loads(reply)["result"]["isError"] is False
