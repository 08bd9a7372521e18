"""The doctor's checks of hosts with an adapter, and of the hooks in agents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from rehydrate._text import error_text
from rehydrate.cli.doctor import Check, Found

ADAPTERS = {
    "agent-framework": ["agent_framework"],
    "anthropic": ["memory_tool"],
    "claude-agent-sdk": ["claude_agent_sdk"],
    "google-adk": ["google_adk"],
    "haystack": ["haystack"],
    "langchain": ["langchain", "langgraph"],
    "litellm": ["litellm"],
    "llama-index": ["llama_index"],
    "mcp": ["mcp_server"],
    "openai-agents": ["openai_agents"],
    "pydantic-ai": ["pydantic_ai"],
    "ray": ["ray_data"],
    "spark": ["spark"],
    "strands-agents": ["strands_agents"],
}
"""Packages of `rehydrate.integrations`, by the extra that brings their host."""

_REQUIREMENT = re.compile(
    r"^(?!rehydrate-)(?P<package>[\w.-]+)(\[[\w,-]+\])?(?P<bounds>[^;]*);"
    r".*extra == ['\"](?P<extra>[^'\"]+)"
)
_BOUND = re.compile(r"(>=|<)\s*([\d.]+)")


class Host(NamedTuple):
    """A host that is installed."""

    extra: str
    package: str
    version: str
    bounds: str
    """The versions that its adapter is made for, as pip writes them."""

    @property
    def is_known(self) -> bool:
        """Whether the adapter is made for this version."""
        here = _numbers(self.version)
        bounds = [(sign, _numbers(bound)) for sign, bound in _BOUND.findall(self.bounds)]
        return all(here >= bound if sign == ">=" else here < bound for sign, bound in bounds)

    @property
    def remedy(self) -> str:
        """The command that installs a version that the adapter is made for."""
        return f'python -m pip install "rehydrate[{self.extra}]"'


def installed_hosts() -> list[Host]:
    """Return the hosts that are installed, of those with an adapter."""
    from importlib import metadata  # 20 ms that only this command needs

    try:
        required = metadata.requires("rehydrate-hosts") or []
    except metadata.PackageNotFoundError:
        return []  # another check says that the distributions are not installed as packages
    found = []
    for line in required:
        asked = _REQUIREMENT.match(line)
        if asked is None or asked["extra"] not in ADAPTERS:
            continue
        try:
            version = metadata.version(asked["package"])
        except metadata.PackageNotFoundError:
            continue
        found.append(Host(asked["extra"], asked["package"], version, asked["bounds"].strip()))
    return sorted(found)


def check_hosts() -> Found:
    """Check the versions of the hosts that are installed; nothing is loaded."""
    hosts = installed_hosts()
    if not hosts:
        return "ok", f"none with an adapter is installed: {', '.join(ADAPTERS)}"
    shown = [f"{host.package} {host.version}" for host in hosts]
    if strange := [host for host in hosts if not host.is_known]:
        wanted = [f"the adapter of {each.package} is for {each.bounds}" for each in strange]
        return "warn", "; ".join([", ".join(shown), *wanted]), strange[0].remedy
    return "ok", ", ".join(shown)


def load_hosts() -> Iterator[Check]:
    """Yield a check for each adapter whose host is installed: it is loaded with all its names."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM asks the network else
    for host in installed_hosts():
        for adapter in ADAPTERS[host.extra]:
            version = f"{host.package} {host.version}"
            try:
                front = import_module(f"rehydrate.integrations.{adapter}")
                names = [name for name in front.__all__ if getattr(front, name) is not None]
            except Exception as error:
                about = f"does not load with {version}: {error_text(error)}"
                yield Check(adapter, "fail", about, host.remedy)
            else:
                yield Check(adapter, "ok", f"{version}: {', '.join(names)}")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; any text after them does not count.

    >>> _numbers("2.68.0rc1") >= _numbers("2.68")
    True
    """
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def check_agents() -> Found:
    """Say where the hooks of Claude Code and Codex are."""
    from rehydrate.errors import InvalidArgumentError
    from rehydrate.integrations.claude_code import WAYS, Installation

    found: dict[str, str] = {}
    try:
        for way in WAYS:
            installation = Installation(way)
            if events := installation.events:
                found[way] = f"{len(events)} hooks in {installation.target}"
    except InvalidArgumentError as error:
        return "warn", str(error), "without it no hook of that file runs"
    if not found:
        return "ok", "no hooks are installed in Claude Code or Codex"
    if {"plugin", "settings"} <= found.keys():
        remedy = "each hook runs twice: rehydrate claude uninstall --settings"
        return "warn", "; ".join(found.values()), remedy
    return "ok", "; ".join(found.values())
