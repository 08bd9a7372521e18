"""The five mistakes as each provider writes them, and sessions that make none of them.

Raw logs, echoes, heavy schemas, searches that return whole files, and a system prompt that grows or
changes each time.
"""

from __future__ import annotations

import json

import pytest

from rehydrate.errors import InvalidArgumentError
from rehydrate.formats import openai_to_langchain
from rehydrate.linting import lint
from rehydrate.prompt import ContextRequest, PromptIR, Provenance, Section, Stability, compile
from tests.linting.conftest import prose

PROVIDERS = ["anthropic", "openai_chat", "openai_responses", "langchain", "claude_code"]

LOG = "\n".join(
    f"2026-03-01 12:00:{n % 60:02} INFO request {n} took {n * 7} ms" for n in range(500)
)
CODE = "\n".join(f"def handler_{n}(request): return answer_{n * 3}(request)" for n in range(400))
OTHER = "\n".join(f"class Model_{n}(Base): name_{n} = Column('{n * 7}')" for n in range(400))


@pytest.mark.parametrize(
    "tools",
    [{"a": 1}, {"a": None}, 5, [{"functionDeclarations": None}], [{"functionDeclarations": 5}]],
)
def test_tools_that_are_invalid_are_refused(tools):
    with pytest.raises(InvalidArgumentError, match="tool"):
        lint({"tools": tools, "messages": [{"role": "user", "content": "Hello."}]})


def session(provider, tool, asked, result, *, said="Please look into it."):
    """Return a session: the user asks, the tool answers, the assistant confirms."""
    if provider in ("openai_chat", "langchain"):
        function = {"name": tool, "arguments": json.dumps(asked)}
        calls = [{"id": "c1", "type": "function", "function": function}]
        entries = [
            {"role": "user", "content": said},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": result},
            {"role": "assistant", "content": "Done."},
        ]
        return openai_to_langchain(entries) if provider == "langchain" else entries
    if provider == "openai_responses":
        call = {"type": "function_call", "call_id": "c1", "name": tool}
        return [
            {"role": "user", "content": said},
            {**call, "arguments": json.dumps(asked)},
            {"type": "function_call_output", "call_id": "c1", "output": result},
            {"role": "assistant", "content": "Done."},
        ]
    call = {"type": "tool_use", "id": "c1", "name": tool, "input": asked}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": result}
    entries = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [answer]},
        {"role": "assistant", "content": "Done."},
    ]
    if provider == "anthropic":
        return entries
    return [
        {"type": entry["role"], "uuid": f"u{number}", "message": entry}
        for number, entry in enumerate(entries)
    ]


def request(provider, system, said="Hello."):
    """Return one request with a system prompt, in the provider's shape."""
    messages = [{"role": "user", "content": said}]
    if provider == "anthropic":
        return {"model": "claude-sonnet-4-5", "system": system, "messages": messages}
    if provider == "openai_responses":
        return {"model": "gpt-5", "instructions": system, "input": messages}
    whole = [{"role": "system", "content": system}, *messages]
    return openai_to_langchain(whole) if provider == "langchain" else {"messages": whole}


def found(target, **options):
    """Return the rules with findings, infos left out."""
    return {one.rule for one in lint(target, **options) if one.severity != "info"}


# Raw logs, echoes, heavy schemas


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_raw_log_is_found_in_every_format(provider):
    assert found(session(provider, "Bash", {"command": "make"}, LOG)) == {"raw_log"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_comes_back_as_it_was_said_is_found_in_every_format(provider):
    echoed = session(provider, "save", {"path": "a.py"}, prose(600, 1), said=prose(600, 1))
    assert found(echoed) == {"echo"}


@pytest.mark.parametrize("shape", ["anthropic", "openai_chat", "openai_responses"])
def test_heavy_schemas_are_found_in_every_shape(shape):
    about = {"name": "book", "description": prose(900, 2)}
    schema = {"type": "object", "properties": {}}
    tool = {
        "anthropic": {**about, "input_schema": schema},
        "openai_chat": {"type": "function", "function": {**about, "parameters": schema}},
        "openai_responses": {"type": "function", **about, "parameters": schema},
    }[shape]
    key = "input" if shape == "openai_responses" else "messages"
    talk = [{"role": "user", "content": "hi"}]
    assert "heavy_tools" in found({key: talk, "tools": [tool]})
    light = json.loads(json.dumps(tool).replace(json.dumps(prose(900, 2)), '"Book a flight."'))
    assert found({key: talk, "tools": [light]}) == set()


# Searches that return whole files

HITS = [{"path": f"src/{name}.py", "content": text} for name, text in (("a", CODE), ("b", OTHER))]
NUMBERED = "\n".join(f"{n}:{line}" for n, line in enumerate(CODE.splitlines(), 1))
DUMPS = {
    "hits as JSON": ("search_code", {"query": "handler"}, json.dumps(HITS)),
    "hits as lines of JSON": ("search_code", {"query": "x"}, "\n".join(map(json.dumps, HITS * 2))),
    "files after headings": (
        "knowledge_search",
        {"query": "handler"},
        f"=== src/a.py ===\n{CODE}\n=== src/b.py ===\n{OTHER}",
    ),
    "files in tags": ("searchFiles", {}, f"<file a.py>\n{CODE}\n</file>\n<file b.py>\n{OTHER}\n"),
    "a file without a heading": ("search_files", {"query": "handler"}, CODE),
    "a page of prose": ("retrieve_docs", {"query": "x"}, prose(4_000, 3).replace("\n", " ")),
    "a pattern that fits each line": ("Grep", {"pattern": "", "path": "a.py"}, NUMBERED),
    "grep in a shell": ("Bash", {"command": "grep -n '' src/a.py"}, NUMBERED),
    "what grep finds is printed": ("Bash", {"command": "grep -rl x . | xargs cat"}, CODE + OTHER),
    "what find finds is printed": (
        "shell",
        {"command": ["bash", "-lc", "find . -name '*.py' -exec cat {} +"]},
        CODE + OTHER,
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dump", DUMPS)
def test_a_search_that_returns_whole_files_is_found_in_every_format(provider, dump):
    assert found(session(provider, *DUMPS[dump])) == {"search_dump"}


MATCHES = "\n".join(f"src/m{n % 90}.py:{n * 3}:{line}" for n, line in enumerate(CODE.splitlines()))
SNIPPETS = [{"path": f"src/m{n}.py", "text": prose(150, n), "score": 0.5} for n in range(30)]
ROWS = [{"flight": f"HAT{n:03}", "seats": {"economy": n, "business": 2}} for n in range(600)]
CLEAN = {
    "lines that match": ("Grep", {"pattern": "handler"}, MATCHES),
    "lines that match, in a shell": ("Bash", {"command": "rg -n handler"}, MATCHES),
    "names of files": ("find_files", {}, "\n".join(f"src/deep/m{n}.py" for n in range(900))),
    "snippets as JSON": ("search", {"query": "x"}, json.dumps(SNIPPETS)),
    "snippets after headings": (
        "search",
        {"query": "x"},
        "\n".join(f"## src/m{n}.py\n{prose(150, n)}" for n in range(30)),
    ),
    "rows of a table": (
        "query",
        {"sql": "select *"},
        "\n".join(f"{n}\tx\t2" for n in range(2_000)),
    ),
    "rows as JSON": ("search_direct_flight", {"date": "2024-05-16"}, json.dumps(ROWS)),
    "one small file": ("search", {"query": "x"}, "\n".join(CODE.splitlines()[:80])),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("clean", CLEAN)
def test_a_search_that_returns_what_matches_is_left_in_peace(provider, clean):
    assert found(session(provider, *CLEAN[clean])) == set()


def test_whole_files_are_found_in_what_a_servers_own_search_returned():
    hits = [{"file_id": f"f{n}", "filename": "a.md", "text": prose(900, n)} for n in range(3)]
    search = {"type": "file_search_call", "id": "fs_1", "queries": ["x"], "results": hits}
    (finding,) = lint([{"role": "user", "content": "x"}, search], rules=["search_dump"])
    assert "3 whole files" in finding.message
    assert "file_search" in finding.message


# A system prompt that grows

WRAPPED = ["anthropic", "openai_chat", "openai_responses", "langchain"]
RULES_TEXT = "You are a careful assistant. " + prose(60, 4)


def versions(count):
    """Return versions of a system prompt that adds what it learned."""
    return [
        "\n".join([RULES_TEXT, *(f"- Learned: {prose(20, 50 + n)}" for n in range(number))])
        for number in range(count)
    ]


@pytest.mark.parametrize("provider", WRAPPED)
def test_a_system_prompt_that_grows_from_request_to_request_is_found(provider):
    grown = [request(provider, system) for system in versions(6)]
    (finding,) = lint(grown, rules=["growing_system"])
    assert (finding.severity, finding.tokens > 200) == ("warning", True)
    assert "5 times in 6 requests" in finding.message


@pytest.mark.parametrize("provider", WRAPPED)
def test_a_system_prompt_that_stays_or_becomes_another_has_not_grown(provider):
    stays = [request(provider, RULES_TEXT, f"Question {n}.") for n in range(6)]
    assert lint(stays, rules=["growing_system", "unstable_prefix"]) == []
    others = [request(provider, prose(60 + 20 * n, n)) for n in range(6)]
    assert lint(others, rules=["growing_system"]) == []


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "langchain"])
def test_a_system_message_that_is_said_again_and_longer_is_found_in_one_list(provider):
    entries = []
    for number, system in enumerate(versions(5)):
        entries += [
            {"role": "system", "content": system},
            {"role": "user", "content": f"Question {number}."},
            {"role": "assistant", "content": f"Answer {number}."},
        ]
    if provider == "langchain":
        entries = openai_to_langchain(entries)
    (finding,) = lint(entries, rules=["growing_system"], format=provider)
    assert finding.place == "history[12]"
    assert "5 system messages" in finding.message


def test_compiled_prompts_of_a_session_are_compared_too():
    def compiled(text):
        rules = Section("rules", text, Provenance("system"), stability=Stability.STATIC)
        return compile(PromptIR(ContextRequest("Go on."), (rules,)), "anthropic")

    assert lint([compiled(text) for text in versions(5)], rules=["growing_system"])
    assert lint([compiled(RULES_TEXT)] * 5, rules=["growing_system"]) == []


def test_a_journal_in_the_system_prompt_is_found_and_a_policy_is_not():
    notes = "\n".join(f"- 2026-02-{day:02}: {prose(30, day)}" for day in range(1, 9))
    (finding,) = lint(request("anthropic", f"Be brief.\n{notes}"), rules=["growing_system"])
    assert finding.severity == "info"
    assert "2026-02-01 to 2026-02-08" in finding.message
    policy = "\n".join(f"{n}. {prose(30, n)}" for n in range(9))
    assert lint(request("anthropic", policy), rules=["growing_system"]) == []


# A system prompt that changes each time

VARYING = [
    "Now it is 2026-03-02 14:05:11.",
    "Today is 2026-02-17.",
    "Today's date: 17 February 2026.",
    "Current date: February 17th, 2026",
    "The current date is Tuesday, March 3, 2026.",
    "<current_date>2026-03-01</current_date>",
    "Tuesday, March 3, 2026",
    "As of 03/01/2026 you may book.",
    "Session 126e79e2-e6ca-41d6-a1ad-bc4e10bfa287.",
    "trace 4bf92f3577b34da6a3ce929d0e0e4736",
    "01HZX3KQ8V6T4N5M7P9R2S1W0B",
    "User ID: 48291",
    "session_id=8f3k2a91",
    "Your customer id is cus_8H2k.",
    "conversationId: 'conv-91ab'",
]
STEADY = [
    "Policy effective 2024-05-15.",
    "Your knowledge ends on 2024-06-01.",
    "Orders before 2025-01-01 are final.",
    "Dates look like 2026-03-02.",
    "The date format is 2024-05-15.",
    "Ask for the user id and the order id first.",
    "A user id has 8 digits, such as 48291733.",
    "You are claude-sonnet-4-20250514.",
    "As of version 2.10.2024 it works.",
    "We are open from Monday to Friday.",
    "It takes 10 to 15 minutes.",
]


@pytest.mark.parametrize("provider", WRAPPED)
@pytest.mark.parametrize("text", VARYING)
def test_a_date_of_today_and_an_id_are_found_in_every_system_prompt(provider, text):
    assert found(request(provider, f"Be brief.\n{text}\nUse tools."), rules=["unstable_prefix"])


@pytest.mark.parametrize("provider", WRAPPED)
@pytest.mark.parametrize("text", STEADY)
def test_a_date_or_an_id_that_stays_what_it_is_is_left_in_peace(provider, text):
    assert (
        lint(request(provider, f"Be brief.\n{text}\nUse tools."), rules=["unstable_prefix"]) == []
    )
