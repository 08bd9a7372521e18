"""The doctor: its checks, and a remedy for each problem."""

from __future__ import annotations

import json

import pytest

import rehydrate
from rehydrate import _engine, cli, tokens
from rehydrate.cli import doctor
from rehydrate.compact import api


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
