"""The front of a package: the names it offers, and the module that defines each.

``import rehydrate`` must be light, so a package loads a module when one of its names is used. One
table maps names to modules; `__all__`, `__dir__` and the loading follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Front = tuple[list[str], Callable[[], list[str]], Callable[[str], Any]]


def front(
    package: str,
    public: Mapping[str, str],
    *,
    internal: Mapping[str, str] = {},
    moved: Mapping[str, str] = {},
) -> Front:
    """Return ``__all__``, ``__dir__`` and ``__getattr__`` of a package.

    Each table maps a module below the package to the names it defines, separated by blanks. The
    module ``""`` stands for names that are modules themselves; a module of another package is
    written in full. ``internal`` names are for this project's own tests: they load, but ``__all__``
    and ``dir`` do not list them. ``moved`` names load with a DeprecationWarning that names their
    new module.
    """
    homes = _homes(package, public)
    hidden = _homes(package, internal)
    old = _homes(package, moved)
    offered = sorted(homes)

    def load(name: str) -> Any:
        home = homes.get(name) or hidden.get(name)
        if home is None:
            home = _warn_moved(package, name, old)
        module = import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    return offered, lambda: offered, load


def _homes(package: str, table: Mapping[str, str]) -> dict[str, str]:
    return {
        name: module if module.startswith("rehydrate.") else f"{package}.{module or name}"
        for module, names in table.items()
        for name in names.split()
    }


def _warn_moved(package: str, name: str, old: Mapping[str, str]) -> str:
    """Return the new module of a moved name, and warn the caller."""
    if name not in old:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from warnings import warn

    warn(
        f"{package}.{name} is deprecated; import it as {old[name]}.{name}",
        DeprecationWarning,
        stacklevel=3,
    )
    return old[name]
