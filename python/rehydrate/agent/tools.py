"""Tool: a plain typed function, sync or async, that a model may call, and the schema made of it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired, Required

from rehydrate._check import check_list
from rehydrate._native import parsed_docstring
from rehydrate.agent.model import is_finite_number
from rehydrate.errors import InvalidArgumentError, MissingPackageError, RehydrateError
from rehydrate.prompt.section import ToolDef

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_REFUSED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.VAR_KEYWORD: "**{}",
    inspect.Parameter.POSITIONAL_ONLY: "the positional-only {}",
}
_MAX_LISTED_MISTAKES = 8


Check = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts the arguments of a call, or raises InvalidArgumentError."""


def _read(function: Callable[..., Any], name: str) -> tuple[str, dict[str, Any], Check]:
    """Return the description of a typed function, the schema of its arguments, and their check.

    A parameter without a type accepts any value. Raises InvalidArgumentError for parameters that no
    model can fill in, MissingPackageError without pydantic.
    """
    parameters = _parameters(function, name)
    docstring = inspect.getdoc(_docstring_owner(function)) or ""
    description, parameter_docs = parsed_docstring(docstring)
    adapter = _adapter(name, parameters)
    schema = _schema(adapter, name)
    for parameter in parameters:
        properties = schema["properties"][parameter.name]
        if parameter.name in parameter_docs:
            properties.setdefault("description", parameter_docs[parameter.name])
        if parameter.default is not parameter.empty and _is_json(parameter.default):
            properties.setdefault("default", parameter.default)
    return description, schema, lambda arguments: _checked(adapter, arguments, name)


def _docstring_owner(function: Any) -> Any:
    """Return the object with the docstring: a partial's function, or a callable's `__call__`."""
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
        if parameter.kind in _REFUSED_KINDS:
            what = _REFUSED_KINDS[parameter.kind].format(parameter.name)
            raise InvalidArgumentError(
                f"tool {name!r} takes {what}, which no model can fill in; name its parameters, or "
                "pass Tool(name, description, schema, call)"
            )
    return parameters


def _adapter(name: str, parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
    """Return pydantic's adapter for an object with these fields.

    A parameter with a default is not required: the function fills it in.
    """
    try:
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter, with_config
        from pydantic.errors import PydanticSchemaGenerationError
        from typing_extensions import TypedDict  # pydantic refuses that of Python 3.11
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
        raise _unsuitable_type(name, error) from error


def _schema(adapter: TypeAdapter[Any], name: str) -> dict[str, Any]:
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Without the titles of fields: they repeat the parameter's name."""

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
            return False

    try:
        schema = adapter.json_schema(schema_generator=Untitled)
    except PydanticInvalidForJsonSchema as error:
        raise _unsuitable_type(name, error) from error
    schema.pop("title", None)
    schema.pop("description", None)  # the docstring of TypedDict itself
    schema.setdefault("properties", {})
    return schema


def _unsuitable_type(name: str, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"tool {name!r}: {str(error).splitlines()[0]}; give its parameters types that JSON has "
        "words for, or pass Tool(name, description, schema, call)"
    )


def _checked(adapter: TypeAdapter[Any], arguments: dict[str, Any], name: str) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        checked: dict[str, Any] = adapter.validate_python(arguments)
        return checked
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        mistakes = []
        for one in errors[:_MAX_LISTED_MISTAKES]:
            is_extra = one["msg"].startswith("Extra inputs")
            message = "there is no such parameter" if is_extra else one["msg"]
            mistakes.append(": ".join(filter(None, [".".join(map(str, one["loc"])), message])))
        rest = len(errors) - len(mistakes)
        more = f"; and {rest} more" if rest else ""
        raise InvalidArgumentError(
            f"the arguments of {name} are wrong: {'; '.join(mistakes)}{more}"
        ) from None


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


class ToolError(RehydrateError):
    """A failure of a tool, with a message that the model reads word for word.

    Of any other exception the model reads only the type, because its message may hold anything.

    >>> raise ToolError("there is no berth 9; berths are 1 to 7")
    Traceback (most recent call last):
    rehydrate.agent.tools.ToolError: there is no berth 9; berths are 1 to 7
    """


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's definition for the model, and the function that a call runs.

    Make one from a function with `Tool.of`. If you have a JSON Schema already, make one directly:
    `call` then gets the model's arguments by keyword, unchecked.

    >>> tool = Tool("ls", "List files.", {"type": "object"}, lambda **arguments: "src")
    >>> tool.definition
    ToolDef(name='ls', description='List files.')
    """

    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False, repr=False)
    call: Callable[..., Any] = field(repr=False)
    """A sync function runs in a thread, an async one on the event loop."""
    timeout: float | None = None
    """Seconds for one call, above 0; None: `TurnLimits.tool_timeout`."""
    check: Check | None = field(default=None, repr=False)
    """Checks the arguments for `call`."""
    given: ToolDef | None = field(default=None, repr=False)
    """The definition that came in: its own provider gets it as it is."""

    def __post_init__(self) -> None:
        """Refuse an empty name, a `call` that cannot be called, and a timeout that is no time."""
        if not self.name or not isinstance(self.name, str):
            raise InvalidArgumentError(f"a tool's name is {self.name!r}; pass a string")
        if not callable(self.call):
            raise InvalidArgumentError(
                f"tool {self.name!r}: call is of type {type(self.call).__name__}; pass a function"
            )
        seconds = self.timeout
        if seconds is not None and not (is_finite_number(seconds) and seconds > 0):
            raise InvalidArgumentError(
                f"tool {self.name!r}: timeout is {seconds!r}; pass a number of seconds above 0, or "
                "None for that of TurnLimits"
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
        """Make a tool from a typed function: its docstring describes it, its parameters too.

        Describe a parameter by `Annotated[..., pydantic.Field(description=...)]` or in the
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
        name = name or getattr(function, "__name__", type(function).__name__)
        if not name.isidentifier():
            raise InvalidArgumentError(
                f'a tool is named {name!r}; give it a name: Tool.of(function, name="search")'
            )
        read, schema, check = _read(function, name)
        return cls(name, description or read, schema, function, timeout, check)

    @property
    def definition(self) -> ToolDef:
        """The tool's definition for any provider."""
        return self.given or ToolDef(self.name, self.description, self.schema)

    @property
    def is_async(self) -> bool:
        """Whether `call` itself is an async function; what a sync one returns is awaited too."""
        call = self.call
        while hasattr(call, "func"):  # a partial
            call = call.func
        return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004  the method itself is needed
        )

    def checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for `call`; raises InvalidArgumentError if they are wrong."""
        return arguments if self.check is None else self.check(arguments)


def tools_of(given: Iterable[Any]) -> tuple[dict[str, Tool], tuple[ToolDef, ...]]:
    """Return the tools by name, and the definitions of tools that the provider runs itself.

    An item is a Tool, a function, a pair of a definition and a function, or the definition of a
    hosted tool. Raises InvalidArgumentError for anything else, and if two tools have one name.
    """
    check_list("tools", given, "pass a list of functions or Tools")
    tools: dict[str, Tool | ToolDef] = {}
    for item in given:
        tool = _tool(item)
        if tool.name in tools:
            raise InvalidArgumentError(
                f"two tools are named {tool.name!r}; give one another name: "
                'Tool.of(function, name="...")'
            )
        tools[tool.name] = tool
    own = {name: tool for name, tool in tools.items() if isinstance(tool, Tool)}
    return own, tuple([tool for tool in tools.values() if isinstance(tool, ToolDef)])


def _tool(item: Any) -> Tool | ToolDef:
    if isinstance(item, Tool):
        return item
    if isinstance(item, tuple) and len(item) == 2:
        definition = ToolDef.read(item[0])
        name, described, schema = definition.name, definition.description, definition.schema
        return Tool(name, described, schema, item[1], given=definition)
    if isinstance(item, (ToolDef, Mapping)):
        definition = ToolDef.read(item)
        if definition.is_hosted:
            return definition
        raise InvalidArgumentError(
            f"tool {definition.name!r} has nothing to call; pass a pair (definition, function)"
        )
    return Tool.of(item)
