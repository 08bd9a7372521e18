"""The doctor and the hosts that have an adapter: their versions, and whether the adapters load."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path
from pkgutil import iter_modules

import pytest

import rehydrate
from rehydrate.cli import hosts
from rehydrate.cli.hosts import (
    ADAPTERS,
    Host,
    check_hosts,
    installed_hosts,
    load_hosts,
)

ROOT = Path(__file__).parents[2]
NO_HOSTS = {
    *("adapter", "chat_dicts", "host_thread", "signatures", "stored_entries", "table_work"),
    *("claude_code", "loopback_http", "proxy"),
}
"""What adapters share, and what serves programs that are no package."""


@pytest.fixture
def only_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that is quickly loaded."""
    pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")
    host = Host("mcp", "mcp", metadata.version("mcp"), ">=2.3,<3")
    monkeypatch.setattr(hosts, "installed_hosts", lambda: [host])


def test_each_adapter_is_there_and_each_is_checked():
    folder = Path(rehydrate.__file__).parent / "integrations"
    modules = {each.name for each in iter_modules([str(folder)])}
    assert modules - NO_HOSTS == {name for names in ADAPTERS.values() for name in names}


def test_each_host_is_of_an_extra_with_bounds():
    hosts = tomllib.loads((ROOT / "python/hosts/pyproject.toml").read_text(encoding="utf-8"))
    assert set(ADAPTERS) <= set(hosts["project"]["optional-dependencies"])
    assert all(host.bounds and host.version for host in installed_hosts())


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("2.3", True), ("2.3.0", True), ("2.19.4rc1", True), ("2.2.9", False), ("3.0.0", False)],
)
def test_a_version_is_compared_with_what_the_adapter_is_for(version: str, is_known: bool):
    assert Host("mcp", "mcp", version, ">=2.3,<3").is_known is is_known


def test_a_host_of_another_version_is_a_warning_that_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(metadata, "requires", lambda _: ["mcp<3,>=2.3 ; extra == 'mcp'"])
    monkeypatch.setattr(metadata, "version", lambda _: "1.9")
    status, detail, remedy = check_hosts()
    assert (status, remedy) == ("warn", 'python -m pip install "rehydrate[mcp]"')
    assert "mcp 1.9" in detail and "<3,>=2.3" in detail


def test_no_host_is_no_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy>=1.26"])
    status, detail = check_hosts()
    assert status == "ok" and "langchain" in detail


@pytest.mark.usefixtures("only_mcp")
def test_an_adapter_is_loaded_with_its_names():
    (found,) = load_hosts()
    assert found.status == "ok" and "make_server" in found.detail


@pytest.mark.usefixtures("only_mcp")
def test_an_adapter_that_does_not_load_fails_with_a_remedy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hosts, "import_module", lambda _: 1 / 0)
    (found,) = load_hosts()
    assert found.status == "fail" and "rehydrate[mcp]" in found.remedy
