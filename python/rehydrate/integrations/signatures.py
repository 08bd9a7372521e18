"""shows_options: constructors with ``**options`` have each option in their signature, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def shows_options(
    options: Any, *, givers: Iterable[Callable[..., Any]] = (), **defaults: Any
) -> Callable[[F], F]:
    """Decorate a function whose last parameter is ``**options: Unpack[...]`` of a TypedDict.

    ``givers`` take the options in the end: theirs are the defaults that are not given, "..." where
    they have none.

    >>> from typing import TypedDict, Unpack
    >>> class Words(TypedDict, total=False):
    ...     query: str
    >>> def take(query: str = "all") -> None: ...
    >>> @shows_options(Words, givers=[take])
    ... def pass_on(count: int, **options: Unpack[Words]) -> None: ...
    >>> signature(pass_on)
    <Signature (count: 'int', *, query: 'str' = 'all') -> 'None'>
    """
    for giver in givers:
        for name, parameter in signature(giver).parameters.items():
            defaults.setdefault(name, parameter.default)

    def shown(function: F) -> F:
        found = signature(function)
        named = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=defaults.get(name, ...),
                annotation=getattr(kind, "__forward_arg__", kind),
            )
            for name, kind in options.__annotations__.items()
        ]
        own = [each for each in found.parameters.values() if each.kind != Parameter.VAR_KEYWORD]
        function.__signature__ = found.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        return function

    return shown
