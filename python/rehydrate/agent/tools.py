"""Tool: a plain typed function, sync or async, that a model may call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rehydrate.agent.function_schema import FunctionSchema
from rehydrate.errors import InvalidArgumentError, RehydrateError
from rehydrate.prompt.tool_def import ToolDef


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
    """Seconds for one call; None: `TurnLimits.tool_timeout`."""
    check: Callable[[dict[str, Any]], dict[str, Any]] | None = field(default=None, repr=False)
    """Converts the arguments for `call`, or raises InvalidArgumentError."""

    def __post_init__(self) -> None:
        """Refuse an empty name, and a `call` that cannot be called."""
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
        read = FunctionSchema.of(function, name)
        description = description or read.description
        return cls(name, description, read.schema, function, timeout, read.check)

    @property
    def definition(self) -> ToolDef:
        """The tool's definition for any provider."""
        return ToolDef(self.name, self.description, self.schema)

    @property
    def is_async(self) -> bool:
        """Whether a call returns an awaitable."""
        call = inspect.unwrap(self.call)
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
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidArgumentError(
            f"tools is of type {type(given).__name__}; pass a list of functions or Tools"
        )
    tools: dict[str, Tool] = {}
    hosted: dict[str, ToolDef] = {}
    for item in given:
        tool = _tool(item)
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


def _tool(item: Any) -> Tool | ToolDef:
    if isinstance(item, Tool):
        return item
    if isinstance(item, tuple) and len(item) == 2:
        definition = ToolDef.read(item[0])
        return Tool(definition.name, definition.description, definition.schema, item[1])
    if isinstance(item, (ToolDef, Mapping)):
        definition = ToolDef.read(item)
        if definition.is_hosted:
            return definition
        raise InvalidArgumentError(
            f"tool {definition.name!r} has nothing to call; pass a pair (definition, function)"
        )
    return Tool.of(item)
