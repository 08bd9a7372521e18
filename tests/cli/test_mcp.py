"""`rehydrate mcp`: its options, and what it says where it cannot serve."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from rehydrate import cli


def said(capsys) -> str:
    out, line = capsys.readouterr()
    assert out == "" and line.count("\n") == 1
    return line


@pytest.mark.parametrize("option", ["--memory", "--threads"])
def test_a_store_needs_a_namespace(capsys, option, tmp_path):
    assert cli.main(["mcp", option, str(tmp_path / "x.db")]) == 2
    assert "need --namespace NAME" in said(capsys)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--http", "x"], "'x' isn't a port; pass a number from 0 to 65535"),
        (["--http", "65536"], "'65536' isn't a port"),
        (["--tools", "grep"], "'grep' is none of compact_context, request_context,"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(capsys, arguments, problem):
    with pytest.raises(SystemExit) as end:
        cli.main(["mcp", *arguments])
    assert end.value.code == 2
    assert problem in said(capsys)


def test_without_the_sdk_it_says_what_to_install(run, tmp_path):
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise ModuleNotFoundError(name='mcp')")
    path = f"{tmp_path}{':' if sys.platform != 'win32' else ';'}"

    done = run("mcp", env={"PYTHONPATH": path + os.environ.get("PYTHONPATH", "")})
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the package mcp is not installed; python -m pip install 'rehydrate[mcp]'" in (
        done.stderr
    )


def test_the_names_of_the_command_are_those_of_the_tools():
    pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")
    from rehydrate.integrations.mcp_server.tools import TOOLS

    assert (*TOOLS,) == cli.hosts.TOOLS


def test_a_weak_token_and_a_port_in_use_are_reported(run):
    pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")
    for token in ("short", "with blanks in the token", "caf\u00e9-caf\u00e9-caf\u00e9-caf\u00e9"):
        done = run("mcp", "--http", "0", env={"REHYDRATE_MCP_TOKEN": token})
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"$REHYDRATE_MCP_TOKEN isn't a token" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("mcp", "--http", str(taken.getsockname()[1]))
    assert done.returncode == 2 and b"cannot be used: Address already in use" in done.stderr


def test_no_input_is_no_output(run):
    pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")
    done = run("mcp")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
