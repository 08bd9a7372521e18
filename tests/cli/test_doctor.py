"""The doctor: its checks, and a remedy for each problem."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

import pytest

import rehydrate
from rehydrate import _engine, cli, tokens
from rehydrate.cli import compact, doctor, host_checks
from rehydrate.cli.host_checks import (
    ADAPTERS,
    Host,
    check_hosts,
    installed_hosts,
    load_hosts,
)
from rehydrate.compact import api
from rehydrate.errors import InternalError


def test_a_sound_installation_passes(run):
    done = run("doctor")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stdout
    assert not any(line.startswith("fail") for line in lines)
    assert any(line.startswith("ok    embedded model") for line in lines)


def test_json_holds_every_check(run):
    result = json.loads(run("doctor", "--json").stdout)
    assert result["ok"] is True
    assert {check["name"] for check in result["checks"]} == set(doctor._CHECKS)
    assert {check["status"] for check in result["checks"]} <= {"ok", "warn"}


@pytest.mark.parametrize(
    ("check", "place", "broken"),
    [
        ("token counts", (tokens, "count_tokens"), lambda *_: 3),
        ("embedded model", (_engine, "embed"), lambda texts: [[0.0] * 4 for _ in texts]),
        ("compaction", (api, "compact_context"), lambda *_, **__: 1 / 0),
        ("rehydrate", (rehydrate, "__version__"), "9.9.9"),
    ],
)
def test_what_is_broken_fails_with_a_remedy_and_exit_code_1(
    monkeypatch, capfd, check, place, broken
):
    monkeypatch.setattr(*place, broken)
    assert cli.main(["doctor", "--json"]) == 1
    result = json.loads(capfd.readouterr().out)
    (failed,) = [found for found in result["checks"] if found["status"] == "fail"]
    assert (result["ok"], failed["name"]) == (False, check)
    assert failed["remedy"]


def test_without_onnx_runtime_the_doctor_warns_and_says_who_needs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("ORT_DYLIB_PATH", str(tmp_path / "none.so"))
    check = doctor.Check("onnx models", *doctor._onnx())
    assert check.status == "warn"
    assert "load_model" in check.detail and "none.so" in check.remedy


def test_the_known_text_tells_the_encodings_apart():
    assert len(set(doctor.KNOWN_TOKENS.values())) == len(doctor.KNOWN_TOKENS)


# The doctor and the hosts that have an adapter: their versions, and whether the adapters load.


ROOT = Path(__file__).parents[2]
NO_HOSTS = {
    *("adapter", "chat_dicts", "host_thread", "signatures", "stored_entries", "table_work"),
    *("claude_code", "loopback_http", "proxy"),
}
"""Modules that adapters share, and those that serve programs without a package."""


@pytest.fixture
def only_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that is quickly loaded."""
    pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")
    host = Host("mcp", "mcp", metadata.version("mcp"), ">=2.3,<3")
    monkeypatch.setattr(host_checks, "installed_hosts", lambda: [host])


def test_each_adapter_is_there_and_each_is_checked():
    folder = Path(rehydrate.__file__).parent / "integrations"
    modules = {each.name for each in iter_modules([str(folder)])}
    checked = {name.partition(".")[0] for names in ADAPTERS.values() for name in names}
    assert modules - NO_HOSTS == checked


def test_each_adapter_has_the_names_that_the_doctor_loads():
    for name in [name for names in ADAPTERS.values() for name in names]:
        found = find_spec(f"rehydrate.integrations.{name}")
        assert found is not None and found.origin is not None
        assert "__all__" in Path(found.origin).read_text(encoding="utf-8"), name


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


def test_hosts_of_a_checkout_without_metadata_are_not_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(doctor, "_installed", lambda package: None)
    (found,) = [check for check in doctor.examine() if check.name == "hosts"]
    assert (found.status, found.remedy.split()[-1]) == ("warn", "python/hosts")
    assert "not installed as a package" in found.detail


@pytest.mark.usefixtures("only_mcp")
def test_an_adapter_is_loaded_with_its_names():
    (found,) = load_hosts()
    assert found.status == "ok" and "make_server" in found.detail


@pytest.mark.usefixtures("only_mcp")
def test_an_adapter_that_does_not_load_fails_with_a_remedy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_checks, "import_module", lambda _: 1 / 0)
    (found,) = load_hosts()
    assert found.status == "fail" and "rehydrate[mcp]" in found.remedy


# The front of the command line: version, help, unknown commands, internal errors.


def test_the_version_is_the_package_version(run):
    assert run("--version").stdout.decode() == f"rehydrate {rehydrate.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_the_commands_and_where_to_start(run, arguments):
    done = run(*arguments)
    text = done.stdout.decode()
    assert done.returncode == 0
    for part in ("compact", "doctor", "start here"):
        assert part in text


def test_the_help_of_compact_has_examples(run):
    text = run("compact", "--help", env={"COLUMNS": "80"}).stdout.decode()
    assert "examples:" in text
    assert "40%" in text


def test_an_unknown_command_is_one_line(run):
    done = run("compress")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert b"'compact'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "where", "meant"),
    [
        (["comapct", "chat.json"], "rehydrate", "compact"),
        (["memory", "serch", "ports"], "rehydrate memory", "search"),
        (["memory", "list", "--oldestfirst"], "rehydrate memory list", "--oldest-first"),
        (["memory", "list", "--db", "notes.db"], "rehydrate memory list", ""),
        (["compact", "chat.json", "--budgt=3k"], "rehydrate compact", "--budget"),
        (["compact", "chat.json", "--scoring", "balanc"], "rehydrate compact", "balanced"),
        (["codex"], "rehydrate", ""),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest(run, arguments, where, meant):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"{where}: ")
    asked = f"did you mean {meant}? " if meant else ""
    assert line.endswith(f"{asked or ' '}(see {where} --help)")
    assert ("did you mean" in line) is bool(meant)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "compact a.json b.json",
            "rehydrate compact: unrecognized arguments: b.json; it takes FILE",
        ),
        ("lint a.json b.json", "rehydrate lint: unrecognized arguments: b.json; it takes FILE"),
        (
            "thread fork a b c",
            "rehydrate thread fork: unrecognized arguments: c; it takes THREAD NEW",
        ),
        ("doctor x", "rehydrate doctor: unrecognized arguments: x; it takes options only"),
        (
            "memory --namespace x list",
            "rehydrate memory: --namespace belongs after the command: "
            "rehydrate memory COMMAND --namespace",
        ),
        (
            "memory -n x list",
            "rehydrate memory: -n belongs after the command: rehydrate memory COMMAND -n",
        ),
        (
            "--json=1 doctor",
            "rehydrate: --json belongs after the command: rehydrate COMMAND --json",
        ),
    ],
)
def test_a_word_too_many_or_too_early_is_said_to_be_that(run, arguments, line):
    done = run(*arguments.split())
    where = line.partition(":")[0]
    shown = done.stderr.decode()
    assert (done.returncode, shown) == (2, f"{line} (see {where} --help)\n")


def test_a_command_loads_no_other_command_and_help_nothing_heavy():
    script = """
import sys
from rehydrate import cli
for arguments, absent in (
    (["thread", "--help"], {"rehydrate.cli.memory", "rehydrate.cli.eval", "rehydrate.cli.doctor"}),
    (["--help"], {"numpy", "rich", "asyncio", "rehydrate.linting.linter", "rehydrate.prompt.ir"}),
):
    try: cli.main(arguments)
    except SystemExit: pass
    assert absent.isdisjoint(sys.modules), absent & sys.modules.keys()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_panic_of_the_core_asks_for_a_report(monkeypatch, capfd):
    def panic(_options):
        raise InternalError("pack.rs:1: oh")

    monkeypatch.setattr(compact, "read", panic)
    assert cli.main(["compact", "x"]) == 70
    assert "please report" in capfd.readouterr().err
