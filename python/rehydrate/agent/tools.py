"""Signature: a function's parameters as a JSON Schema, and the check of what a model sends.

Tool: a plain typed function, sync or async, as a tool that a model may call.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, Required

from rehydrate.errors import InvalidArgumentError, MissingPackageError, RehydrateError
from rehydrate.prompt.tool_def import ToolDef

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.VAR_KEYWORD: "**{}",
    inspect.Parameter.POSITIONAL_ONLY: "the positional-only {}",
}
_SHOWN = 8
"""So many mistakes of one call are named."""


class Signature(NamedTuple):
    """What a model is told of a function, and the check of its arguments."""

    description: str
    schema: dict[str, Any]
    check: Callable[[dict[str, Any]], dict[str, Any]]

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> Signature:
        """That of a typed function; a parameter without a type takes anything."""
        parameters = _parameters(function, name)
        description, described = _documented(inspect.getdoc(_documented_by(function)) or "")
        adapter = _adapter(name, parameters)
        schema = _schema(adapter, name)
        for parameter in parameters:
            about = schema["properties"][parameter.name]
            if parameter.name in described:
                about.setdefault("description", described[parameter.name])
            if parameter.default is not parameter.empty and _is_json(parameter.default):
                about.setdefault("default", parameter.default)

        def check(arguments: dict[str, Any]) -> dict[str, Any]:
            return _checked(adapter, arguments, name)

        return cls(description, schema, check)


def _documented_by(function: Any) -> Any:
    """What has the docstring: not `partial` itself, nor the class of an object that is called."""
    while hasattr(function, "func"):
        function = function.func
    is_object = not (inspect.isroutine(function) or inspect.isclass(function))
    return type(function).__call__ if is_object else function


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, TypeError, ValueError, AttributeError, SyntaxError) as error:
        raise InvalidArgumentError(
            f"tool {name!r}: its signature cannot be read ({error}); give its parameters types "
            "that exist when it runs, or pass Tool(name, description, schema, call)"
        ) from error
    for parameter in parameters:
        if parameter.kind in _REFUSED:
            what = _REFUSED[parameter.kind].format(parameter.name)
            raise InvalidArgumentError(
                f"tool {name!r} takes {what}, which no model can fill in; name its parameters, or "
                "pass Tool(name, description, schema, call)"
            )
    return parameters


def _adapter(name: str, parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
    """pydantic's, for an object with these fields, each missing one left to the function."""
    try:
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter, with_config
        from pydantic.errors import PydanticSchemaGenerationError
        from typing_extensions import TypedDict  # that of Python 3.11 is not enough for pydantic
    except ImportError:
        raise MissingPackageError(
            "rehydrate[tools]", "makes tools of typed functions (by pydantic)"
        ) from None
    fields: dict[str, Any] = {}
    for parameter in parameters:
        hint = Any if parameter.annotation is parameter.empty else parameter.annotation
        is_required = parameter.default is parameter.empty
        fields[parameter.name] = Required[hint] if is_required else NotRequired[hint]
    kind: Any = TypedDict(name, fields)  # type: ignore[misc]
    try:
        return TypeAdapter(with_config(ConfigDict(extra="forbid"))(kind))
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise InvalidArgumentError(
            f"tool {name!r}: {str(error).splitlines()[0]}; give its parameters types that JSON has "
            "words for, or pass Tool(name, description, schema, call)"
        ) from error


def _schema(adapter: TypeAdapter[Any], name: str) -> dict[str, Any]:
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Without the titles of fields, which say a parameter's name a second time."""

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
            return False

    try:
        schema = adapter.json_schema(schema_generator=Untitled)
    except PydanticInvalidForJsonSchema as error:
        raise InvalidArgumentError(
            f"tool {name!r}: {str(error).splitlines()[0]}; give its parameters types that JSON has "
            "words for, or pass Tool(name, description, schema, call)"
        ) from error
    schema.pop("title", None)
    schema.pop("description", None)  # of a TypedDict: its own
    schema.setdefault("properties", {})
    return schema


def _checked(adapter: TypeAdapter[Any], arguments: dict[str, Any], name: str) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        checked: dict[str, Any] = adapter.validate_python(arguments)
        return checked
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        said = [_mistake(one["loc"], one["msg"]) for one in wrong[:_SHOWN]]
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise InvalidArgumentError(
            f"the arguments of {name} are wrong: {'; '.join(said)}{more}"
        ) from None


def _mistake(place: tuple[int | str, ...], message: str) -> str:
    message = "there is no such parameter" if message.startswith("Extra inputs") else message
    return f"{'.'.join(map(str, place))}: {message}" if place else message


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


_SECTION = re.compile(r"^(Args|Arguments|Parameters):\s*$", re.MULTILINE)
_HEADING = re.compile(r"^[A-Z]\w*( \w+)?:\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def _documented(docstring: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, without Google's sections, and of its parameters.

    >>> _documented("Adds.\\n\\nArgs:\\n    a (int): One,\\n        and only.\\n    b: Two.")
    ('Adds.', {'a': 'One, and only.', 'b': 'Two.'})
    """
    first = _HEADING.search(docstring)
    description = docstring[: first.start()].strip() if first else docstring.strip()
    begins = _SECTION.search(docstring)
    if begins is None:
        return description, {}
    ends = _HEADING.search(docstring, begins.end())
    found: dict[str, list[str]] = {}
    depth, last = "", ""
    for line in docstring[begins.end() : ends.start() if ends else None].splitlines():
        match = _PARAMETER.match(line)
        if match and (not depth or match[1] == depth):
            depth, last = match[1], match[2]
            found[last] = [match[3]]
        elif line.strip() and last:
            found[last].append(line)
    return description, {
        name: " ".join(" ".join(words).split()) for name, words in found.items() if any(words)
    }


class ToolError(RehydrateError):
    """A tool failed, and this is what the model is to read of it, word for word.

    Of any other exception of a tool the model is told the type alone: its text may hold anything.

    >>> raise ToolError("there is no berth 9; berths are 1 to 7")
    Traceback (most recent call last):
    rehydrate.agent.tools.ToolError: there is no berth 9; berths are 1 to 7
    """


@dataclass(frozen=True, slots=True)
class Tool:
    """What the model is told of a tool, and what is called.

    Make one of a function with `Tool.of`; directly, of a schema that exists already, where `call`
    takes what the model sends as keyword arguments, unchecked.

    >>> tool = Tool("ls", "List files.", {"type": "object"}, lambda **arguments: "src")
    >>> tool.definition
    ToolDef(name='ls', description='List files.')
    """

    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False, repr=False)
    call: Callable[..., Any] = field(repr=False)
    """Sync ones run in a thread, async ones on the loop."""
    timeout: float | None = None
    """So long a call may take; None: what the Interpreter's limits say."""
    check: Callable[[dict[str, Any]], dict[str, Any]] | None = field(default=None, repr=False)
    """Makes the arguments what `call` wants, or raises InvalidArgumentError."""

    def __post_init__(self) -> None:
        """Refuse what is no tool."""
        if not self.name or not isinstance(self.name, str):
            raise InvalidArgumentError(f"a tool's name is {self.name!r}; pass a string")
        if not callable(self.call):
            raise InvalidArgumentError(
                f"tool {self.name!r}: call is of type {type(self.call).__name__}; pass a function"
            )

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        timeout: float | None = None,
    ) -> Tool:
        """A typed function as a tool: its docstring is the description, its parameters the schema.

        A parameter is described by `Annotated[..., pydantic.Field(description=...)]` or in the
        docstring's `Args:`. Raises InvalidArgumentError for parameters that no model can fill in
        (``*args``, ``**kwargs``, positional-only), MissingPackageError without pydantic.

        >>> def berths(quay: str, free_only: bool = True) -> list[int]:
        ...     '''The numbers of the berths at a quay.
        ...
        ...     Args:
        ...         quay: Its letter.
        ...     '''
        ...     return [4]
        >>> Tool.of(berths).schema["properties"]["quay"]
        {'type': 'string', 'description': 'Its letter.'}
        """
        if not callable(function):
            raise InvalidArgumentError(
                f"a tool is of type {type(function).__name__}; pass a function"
            )
        called = name or getattr(function, "__name__", type(function).__name__)
        if not called.isidentifier():
            raise InvalidArgumentError(
                f'a tool is named {called!r}; give it a name: Tool.of(function, name="search")'
            )
        signature = Signature.of(function, called)
        about = description or signature.description
        return cls(called, about, signature.schema, function, timeout, signature.check)

    @property
    def definition(self) -> ToolDef:
        """As every provider can be told of it."""
        return ToolDef(self.name, self.description, self.schema)

    @property
    def is_async(self) -> bool:
        """Whether calling it gives something to await."""
        call = inspect.unwrap(self.call)
        while hasattr(call, "func"):  # a partial
            call = call.func
        return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004  the method itself is wanted
        )

    def checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as `call` takes them; raises InvalidArgumentError for the model to read."""
        return arguments if self.check is None else self.check(arguments)


def tools_of(given: Iterable[Any]) -> tuple[dict[str, Tool], tuple[ToolDef, ...]]:
    """The tools by name, and the definitions of those that the provider itself runs.

    Each of the given is a Tool, a function, a pair of a definition and a function, or the
    definition of a hosted tool. Raises InvalidArgumentError for anything else and for two tools of
    one name.
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidArgumentError(
            f"tools is of type {type(given).__name__}; pass a list of functions or Tools"
        )
    tools: dict[str, Tool] = {}
    hosted: dict[str, ToolDef] = {}
    for one in given:
        tool = _tool(one)
        if tool.name in tools or tool.name in hosted:
            raise InvalidArgumentError(
                f"two tools are named {tool.name!r}; give one another name: "
                'Tool.of(function, name="...")'
            )
        if isinstance(tool, Tool):
            tools[tool.name] = tool
        else:
            hosted[tool.name] = tool
    return tools, tuple(hosted.values())


def _tool(given: Any) -> Tool | ToolDef:
    if isinstance(given, Tool):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        definition = ToolDef.read(given[0])
        return Tool(definition.name, definition.description, definition.schema, given[1])
    if isinstance(given, (ToolDef, Mapping)):
        definition = ToolDef.read(given)
        if definition.is_hosted:
            return definition
        raise InvalidArgumentError(
            f"tool {definition.name!r} has nothing to call; pass a pair (definition, function)"
        )
    return Tool.of(given)
