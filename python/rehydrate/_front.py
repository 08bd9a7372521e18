"""The front of a package: the names it offers, loaded when they are used.

``import rehydrate`` must be light, so a package loads a module when one of its names is used. The
names are listed once, in the ``if TYPE_CHECKING:`` block of the package: type checkers read it
there, and `front` reads it in the code that Python compiled from it. So it needs no source file.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from types import CodeType
from typing import Any

from rehydrate._distributions import is_here, meant

Front = tuple[list[str], Callable[[], list[str]], Callable[[str], Any]]


def front(package: str, *, rooms: str = "") -> Front:
    """Return ``__all__``, ``__dir__`` and ``__getattr__`` of the package that calls.

    It offers the names that its code imports as ``from rehydrate.module import X as X``. ``rooms``
    names packages below it, separated by blanks, that load as attributes but are not listed. A name
    of a distribution that is not installed is not listed either: using it raises an error that
    names the extra.
    """
    homes = dict(_imported(sys._getframe(1).f_code))
    offered = sorted(name for name, module in homes.items() if is_here(module))

    def load(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if name in rooms.split():
            return import_module(f"{package}.{name}")
        raise MissingNameError(package, name)

    return offered, lambda: offered, load


class MissingNameError(AttributeError):
    """A name that a package does not have. Its place is looked for when the text is read: Python
    asks a package for each of its modules too before it imports one."""

    def __init__(self, *package_and_name: str) -> None:
        # Without these two, Python adds a guess of its own.
        super().__init__(*package_and_name, name="", obj=None)

    def __str__(self) -> str:
        package, name = self.args
        return f"module {package!r} has no attribute {name!r}{meant(package, name)}"


def _imported(code: CodeType) -> Iterator[tuple[str, str]]:
    """Yield each name that the code imports from this package as it is called, and its module."""
    module = ""
    for step, after in pairwise(dis.get_instructions(code)):
        if step.opname == "IMPORT_NAME":
            module = step.argval
        is_kept = step.opname == "IMPORT_FROM" and after.argval == step.argval
        if is_kept and module.startswith("rehydrate.") and module != __name__:
            yield step.argval, module
