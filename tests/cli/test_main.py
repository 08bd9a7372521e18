"""The front of the command line: version, help, unknown commands, internal errors."""

from __future__ import annotations

import pytest

import rehydrate
from rehydrate import cli
from rehydrate.cli import compact
from rehydrate.errors import InternalError


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


def test_a_panic_of_the_core_asks_for_a_report(monkeypatch, capfd):
    def panic(_options):
        raise InternalError("pack.rs:1: oh")

    monkeypatch.setattr(compact, "run", panic)
    assert cli.main(["compact", "x"]) == 70
    assert "please report" in capfd.readouterr().err
