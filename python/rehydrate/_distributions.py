"""The place of a missing name: another distribution, whose extra is named, or a package.

`rehydrate`, `rehydrate-hosts`, `rehydrate-lab` and `rehydrate-postgres` install into one package.
Their pyproject.toml lists their files; a test compares this table with them.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

OTHERS = ("hosts", "lab", "postgres")
HOMES = {
    "rehydrate.integrations": "hosts",
    "rehydrate.rpc": "hosts",
    "rehydrate.cli.host_checks": "hosts",
    "rehydrate.cli.hosts": "hosts",
    "rehydrate.cli.proxy": "hosts",
    "rehydrate.agent.anthropic": "anthropic",
    "rehydrate.agent.bedrock": "bedrock",
    "rehydrate.agent.gemini": "gemini",
    "rehydrate.agent.mcp": "mcp",
    "rehydrate.agent.openai": "openai",
    "rehydrate.agent.sdk": "hosts",
    "rehydrate.agent.sdk_answers": "hosts",
    "rehydrate.agent.spans": "telemetry",
    "rehydrate.agent.telemetry": "telemetry",
    "rehydrate.agent.traced_memory": "telemetry",
    "rehydrate.batch": "lab",
    "rehydrate.cost.simulation": "lab",
    "rehydrate.linting": "lab",
    "rehydrate.page": "lab",
    "rehydrate.retention": "lab",
    "rehydrate.testing": "lab",
    "rehydrate.cli.batch": "lab",
    "rehydrate.cli.eval": "lab",
    "rehydrate.cli.inspect": "lab",
    "rehydrate.cli.model": "lab",
    "rehydrate.memory.postgres": "postgres",
}
"""The extra of `rehydrate` that brings a module, with the SDK if it is for one."""

ROOMS = (
    "agent batch compact context cost embedding errors formats linting memory page process "
    "prompt retention testing tokens"
)
"""The packages and modules that load as attributes of `rehydrate`, and are not listed there."""


class MissingFinder:
    """The last finder of modules: it names the extra of one of our modules that is not installed,
    or the place of a name that is imported from a front that does not have it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004
        """Raise MissingPackageError for a module, ImportError for a name.

        `importlib.util.find_spec` gets no error: it asks and does not import.
        """
        asking = sys._getframe(1).f_back
        if asking is not None and asking.f_globals.get("__name__") == "importlib.util":
            return
        if name in HOMES:
            from rehydrate.errors import MissingPackageError

            raise MissingPackageError(f"rehydrate[{HOMES[name]}]", f"brings {name}")
        package, _, last = name.rpartition(".")
        is_ours = package.partition(".")[0] == "rehydrate" and not last.startswith("_")
        is_front = is_ours and hasattr(sys.modules.get(package), "__getattr__")
        if is_front and (hint := meant(package, last)):
            raise ImportError(f"cannot import name {last!r} from {package!r}{hint}", name=name)


sys.meta_path.append(MissingFinder)


def is_here(module: str) -> bool:
    """Return whether a module is installed, if another distribution may bring it."""
    try:
        return module not in HOMES or find_spec(module) is not None
    except ImportError:
        return False


def meant(package: str, name: str) -> str:
    """Return the place of a name that a package lacks, or the nearest name; "" for neither."""
    from difflib import get_close_matches

    found: dict[str, str] = {}
    for module in (package, "rehydrate", *[f"rehydrate.{room}" for room in ROOMS.split()]):
        found.setdefault(module.rpartition(".")[2], module)
        with suppress(ImportError):
            for each in getattr(import_module(module), "__all__", ()):
                found.setdefault(each, f"{module}.{each}")
    near = get_close_matches(name, found, n=1, cutoff=0.8)
    return f"; did you mean {found[near[0]]}?" if near else ""
