"""Tool: a plain typed function, sync or async, as a tool that a model may call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rehydrate.errors import InvalidArgumentError, RehydrateError
from rehydrate.ir import ToolDef
from rehydrate.runtime.signature import Signature


class ToolError(RehydrateError):
    """A tool failed, and this is what the model is to read of it, word for word.

    Of any other exception of a tool the model is told the type alone: its text may hold anything.

    >>> raise ToolError("there is no berth 9; berths are 1 to 7")
    Traceback (most recent call last):
    rehydrate.runtime.tools.ToolError: there is no berth 9; berths are 1 to 7
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
    seconds: float | None = None
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
        seconds: float | None = None,
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
        return cls(called, about, signature.schema, function, seconds, signature.check)

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
