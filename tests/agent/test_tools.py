"""A typed function is a tool: its schema, its descriptions, its check, and what is refused."""

import builtins
import enum
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Annotated, Literal

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel, Field

from rehydrate import Context
from rehydrate.agent import Tool, ToolError
from rehydrate.agent.tool_calls import MAX_HANGING_CALLS, ToolRunner
from rehydrate.agent.tools import tools_of
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.prompt import ToolDef
from tests.agent.script import BACKENDS


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Ship(BaseModel):
    name: str
    draught: float = 0


@dataclass
class Cargo:
    tons: int


def book(
    berth: int,
    ship: Ship,
    size: Size = Size.SMALL,
    *,
    cargo: list[Cargo] | None = None,
    day: date | None = None,
    side: Literal["port", "starboard"] = "port",
    note: Annotated[str, Field(description="For the crew.", max_length=10)] = "",
    schema="any",
) -> str:
    """Book a berth.

    It is free then: nobody else has it.

    Args:
        berth (int): Its number: one
            that is free.
        ship: Who comes.
        note: Not this one.

    Returns:
        What the harbour said.
    """
    return f"{berth} {ship.name} {size.name} {cargo} {day} {side} {note} {schema}"


def test_the_schema_is_the_signature():
    properties = Tool.of(book).schema["properties"]
    assert list(properties) == ["berth", "ship", "size", "cargo", "day", "side", "note", "schema"]
    assert properties["berth"] == {
        "type": "integer",
        "description": "Its number: one that is free.",
    }
    assert properties["ship"] == {"$ref": "#/$defs/Ship", "description": "Who comes."}
    assert properties["side"]["enum"] == ["port", "starboard"]
    assert properties["note"] == {
        "type": "string",
        "maxLength": 10,
        "description": "For the crew.",
        "default": "",
    }
    assert properties["schema"] == {"default": "any"}
    assert Tool.of(book).schema["required"] == ["berth", "ship"]
    assert Tool.of(book).schema["additionalProperties"] is False


def test_the_docstring_is_the_description_without_its_sections():
    tool = Tool.of(book)
    assert tool.description == "Book a berth.\n\nIt is free then: nobody else has it."
    assert Tool.of(book, description="Another.").description == "Another."
    assert Tool.of(book, name="reserve").name == "reserve"


def test_arguments_arrive_as_the_types_of_the_parameters():
    given = {
        "berth": "4",
        "ship": {"name": "Ada"},
        "size": "large",
        "cargo": [{"tons": 3}],
        "day": "2026-02-17",
        "schema": {"any": "thing"},
    }
    checked = Tool.of(book).checked(given)
    assert checked == {
        "berth": 4,
        "ship": Ship(name="Ada"),
        "size": Size.LARGE,
        "cargo": [Cargo(3)],
        "day": date(2026, 2, 17),
        "schema": {"any": "thing"},
    }
    assert book(**checked).startswith("4 Ada LARGE")


def test_every_mistake_is_named_and_the_first_few_only():
    with pytest.raises(InvalidArgumentError) as raised:
        Tool.of(book).checked({"ship": {}, "side": "aft", "colour": 1})
    assert str(raised.value) == (
        "the arguments of book are wrong: berth: Field required; ship.name: Field required; "
        "side: Input should be 'port' or 'starboard'; colour: there is no such parameter"
    )
    with pytest.raises(InvalidArgumentError, match=r"and 94 more$"):
        Tool.of(book).checked({f"a{number}": 1 for number in range(100)})


def test_a_method_a_partial_and_an_object_that_is_called_are_tools_too():
    class Harbour:
        def free(self, quay: str) -> int:
            """Free berths."""
            return len(quay)

        def __call__(self, quay: str) -> int:
            """Calls the harbour."""
            return 0

    assert Tool.of(Harbour().free).schema["properties"] == {"quay": {"type": "string"}}
    assert Tool.of(Harbour().free).description == "Free berths."
    called = Tool.of(Harbour(), name="harbour")
    assert (called.description, called.schema["required"]) == ("Calls the harbour.", ["quay"])
    partly = Tool.of(partial(Harbour().free, quay="B"), name="free_at_b")
    assert (partly.description, partly.schema.get("required")) == ("Free berths.", None)


def variadic(*names: str) -> None: ...
def keywords(**names: str) -> None: ...
def positional(name: str, /) -> None: ...
def unknown(name: "Nowhere") -> None: ...  # noqa: F821
def uncallable(name: Callable[[], int]) -> None: ...


class Opaque:
    pass


def opaque(name: Opaque) -> None: ...


REFUSED = {
    variadic: r"takes \*names, which no model can fill in",
    keywords: r"takes \*\*names, which no model can fill in",
    positional: "takes the positional-only name",
    unknown: "'Nowhere' is not defined",
    uncallable: "give its parameters types that JSON has words for",
    opaque: "give its parameters types that JSON has words for",
    max: "its signature cannot be read",
}


@pytest.mark.parametrize(("function", "words"), REFUSED.items(), ids=[f.__name__ for f in REFUSED])
def test_what_no_model_can_call_is_refused_with_a_remedy(function, words):
    with pytest.raises(InvalidArgumentError, match=words) as raised:
        Tool.of(function)
    assert "Tool(name, description, schema, call)" in str(raised.value)


def test_a_function_without_a_name_needs_one():
    with pytest.raises(InvalidArgumentError, match=r"Tool\.of\(function, name="):
        Tool.of(lambda: 1)
    with pytest.raises(InvalidArgumentError, match="of type int"):
        Tool.of(3)


def test_without_pydantic_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **options):
        if name.partition(".")[0] == "pydantic":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingPackageError, match=r"pip install 'rehydrate\[tools\]"):
        Tool.of(book)
    # A schema of one's own needs none.
    assert Tool("ls", "", {"type": "object"}, lambda: "").checked({}) == {}


def test_the_agent_imports_no_optional_package_unless_it_is_used():
    import subprocess

    script = (
        "import sys, rehydrate.agent\n"
        "print(sorted({'pydantic', 'trio', 'mcp', 'openai', 'anthropic'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"


def test_tools_are_given_as_functions_tools_or_pairs():
    definition = {"name": "ls", "description": "List.", "input_schema": {"type": "object"}}
    chat = {"type": "function", "function": {"name": "cat", "parameters": {"type": "object"}}}
    own = Tool("rm", "Remove.", {"type": "object"}, print)
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    tools, offered = tools_of([book, own, (definition, print), (ToolDef.read(chat), print), hosted])
    assert list(tools) == ["book", "rm", "ls", "cat"]
    assert tools["ls"].definition == ToolDef.read(definition)
    assert [each.name for each in offered] == ["web_search"]


def test_the_definition_of_a_pair_is_sent_to_its_own_provider_as_it_is():
    bash = {"type": "bash_20250124", "name": "bash"}
    listed = {"name": "ls", "input_schema": {"type": "object"}, "strict": True}
    tools, offered = tools_of([(bash, print), (listed, print)])
    definitions = [*offered, *(each.definition for each in tools.values())]
    prompt = Context(provider="anthropic", tools=definitions).prompt("Go.")
    assert prompt.request["tools"] == [bash, listed]


@pytest.mark.parametrize(
    ("definition", "name", "provider"),
    [
        ({"type": "custom", "name": "patch", "description": "x"}, "patch", "openai_responses"),
        ({"type": "custom", "custom": {"name": "patch"}}, "patch", "openai_chat"),
        ({"type": "mcp", "server_label": "dms", "server_url": "u"}, "dms", "openai_responses"),
        ({"type": "mcp_toolset", "mcp_server_name": "dms"}, "dms", "anthropic"),
        ({"type": "web_search"}, "web_search", "openai_responses"),
        ({"type": "bash_20250124", "name": "bash"}, "bash", "anthropic"),
    ],
)
def test_a_tool_that_a_provider_runs_has_its_own_name_and_that_provider(definition, name, provider):
    read = ToolDef.read(definition)
    assert (read.name, read.provider, read.raw) == (name, provider, definition)
    assert read.is_hosted


def test_what_is_no_tool_is_refused():
    definition = {"name": "ls", "input_schema": {"type": "object"}}
    with pytest.raises(InvalidArgumentError, match="has nothing to call"):
        tools_of([definition])
    with pytest.raises(InvalidArgumentError, match="two tools are named 'book'"):
        tools_of([book, book])
    with pytest.raises(InvalidArgumentError, match="pass a list"):
        tools_of(definition)
    with pytest.raises(InvalidArgumentError, match="call is of type str"):
        Tool("ls", "", {}, "print")
    with pytest.raises(InvalidArgumentError, match="name is ''"):
        Tool("", "", {}, print)


# ToolRunner: calls that hang are left running, and counted.


both = pytest.mark.parametrize("backend", BACKENDS)


@both
def test_a_tool_whose_calls_never_come_back_is_called_no_more_until_they_have(backend):
    release = threading.Event()

    def hangs():
        release.wait(60)

    async def main():
        threads = ToolRunner()
        for _ in range(MAX_HANGING_CALLS):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await threads.run("hangs", hangs)
        with pytest.raises(ToolError, match="32 calls of hangs have not come back"):
            await threads.run("hangs", hangs)
        assert await threads.run("other", lambda: "here") == "here"
        release.set()
        while True:
            try:
                return await threads.run("hangs", lambda: "again")
            except ToolError:
                await anyio.lowlevel.checkpoint()

    try:
        assert anyio.run(main, backend=backend) == "again"
    finally:
        release.set()


@both
def test_calls_that_fail_are_no_calls_that_hang(backend):
    async def main():
        threads = ToolRunner()
        for _ in range(MAX_HANGING_CALLS + 1):
            with pytest.raises(ZeroDivisionError):
                await threads.run("fails", lambda: 1 / 0)

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5"])
def test_a_timeout_is_a_number_of_seconds_above_0(timeout):
    with pytest.raises(InvalidArgumentError, match=r"tool .book.: timeout is .*above 0"):
        Tool.of(book, timeout=timeout)
