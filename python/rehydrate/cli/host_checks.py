"""The checks of `rehydrate doctor` for hosts: versions, adapters that load, hooks of agents."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from rehydrate._text import error_text
from rehydrate.cli.doctor import Check

ADAPTERS = {
    "agent-framework": ["agent_framework"],
    "anthropic": ["memory_tool"],
    "claude-agent-sdk": ["claude_agent_sdk"],
    "google-adk": ["google_adk"],
    "langchain": ["langchain", "langgraph"],
    "litellm": ["litellm"],
    "llama-index": ["llama_index"],
    "mcp": ["mcp_server"],
    "openai-agents": ["openai_agents"],
    "pydantic-ai": ["pydantic_ai"],
    "ray": ["ray_data"],
    "spark": ["spark"],
}
"""Packages of `rehydrate.integrations`, by the extra that brings their host."""

_REQUIREMENT = re.compile(
    r"^(?P<package>[\w.-]+)(\[[\w,-]+\])?(?P<bounds>[^;]*);.*extra == ['\"](?P<extra>[^'\"]+)"
)
_BOUND = re.compile(r"(>=|<)\s*([\d.]+)")


class Host(NamedTuple):
    """A host that is installed."""

    extra: str
    package: str
    version: str
    bounds: str
    """Which versions its adapter is made for, as pip writes them."""

    @property
    def is_known(self) -> bool:
        """Whether the adapter is made for this version."""
        here = _numbers(self.version)
        return all(
            here >= _numbers(bound) if sign == ">=" else here < _numbers(bound)
            for sign, bound in _BOUND.findall(self.bounds)
        )

    @property
    def remedy(self) -> str:
        """How to get a version that the adapter is made for."""
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


def check_hosts(name: str) -> Check:
    """Check the versions of the hosts that are installed; nothing is loaded."""
    hosts = installed_hosts()
    if not hosts:
        return Check(name, "ok", f"none with an adapter is installed: {', '.join(ADAPTERS)}")
    told = [f"{host.package} {host.version}" for host in hosts]
    strange = [host for host in hosts if not host.is_known]
    if strange:
        wanted = "; ".join(
            f"the adapter of {each.package} is for {each.bounds}" for each in strange
        )
        return Check(name, "warn", f"{', '.join(told)}; {wanted}", strange[0].remedy)
    return Check(name, "ok", ", ".join(told))


def load_hosts() -> Iterator[Check]:
    """Yield a check for each adapter whose host is installed: it is loaded with all its names."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM asks the network else
    for host in installed_hosts():
        for adapter in ADAPTERS[host.extra]:
            yield _loaded(host, adapter)


def _loaded(host: Host, adapter: str) -> Check:
    try:
        front = import_module(f"rehydrate.integrations.{adapter}")
        names = [name for name in front.__all__ if getattr(front, name) is not None]
    except Exception as error:
        about = f"does not load with {host.package} {host.version}: {error_text(error)}"
        return Check(adapter, "fail", about, host.remedy)
    return Check(adapter, "ok", f"{host.package} {host.version}: {', '.join(names)}")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; what follows them does not count.

    >>> _numbers("2.68.0rc1") >= _numbers("2.68")
    True
    """
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def check_agents(name: str) -> Check:
    """Tell where the hooks of Claude Code and Codex are."""
    from rehydrate.errors import InvalidArgumentError
    from rehydrate.integrations.claude_code import WAYS, Installation

    found: dict[str, str] = {}
    try:
        for way in WAYS:
            installation = Installation(way)
            if events := installation.events:
                found[way] = f"{len(events)} hooks in {installation.target}"
    except InvalidArgumentError as error:
        return Check(name, "warn", str(error), "without it no hook of that file runs")
    if not found:
        return Check(name, "ok", "no hooks are installed in Claude Code or Codex")
    if {"plugin", "settings"} <= found.keys():
        remedy = "each hook runs twice: rehydrate claude uninstall --settings"
        return Check(name, "warn", "; ".join(found.values()), remedy)
    return Check(name, "ok", "; ".join(found.values()))


CHECKS: dict[str, Callable[[str], Check]] = {"hosts": check_hosts, "agents": check_agents}
"""By the name that the doctor gives them."""
