"""`python -m tools.convert`: one command makes a model that the command line lists."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rehydrate import cli
from tests.convert.tiny import edit_json
from tools.convert.__main__ import main


def test_one_command_makes_a_model_that_list_finds(bert, home, capfd):
    assert main([str(bert)]) == 0
    shown, said = capfd.readouterr()
    assert shown.startswith("tiny: 32 dimensions, 24 tokens, mean pooling\n")
    assert "fp32       model.onnx " in shown
    assert "int8       model_int8.onnx " in shown
    assert shown.endswith("next: rehydrate model bench tiny\n")
    assert "reading" in said

    assert cli.main(["model", "list"]) == 0
    head, line = capfd.readouterr().out.splitlines()
    assert head.split()[:4] == ["name", "dim", "tokens", "precision"]
    assert line.split()[:4] == ["tiny", "32", "24", "fp32+int8"]
    assert line.endswith(str(home / "tiny"))


def test_json_goes_to_standard_output_and_progress_does_not(bert, home, capfd):
    assert main([str(bert), "--json", "--name", "x", "--precision", "int8"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["folder"] == str(home / "x")
    assert (result["name"], result["precisions"], result["warnings"]) == ("x", ["int8"], [])
    assert cli.main(["model", "list", "--json"]) == 0
    (listed,) = json.loads(capfd.readouterr().out)
    assert listed["sha256"] == {"int8": result["files"]["model_int8.onnx"]["sha256"]}
    assert (listed["where"], listed["dim"], listed["path"]) == ("home", 32, result["folder"])


def test_a_folder_can_be_named_and_is_what_comes_next(bert, home, tmp_path, capfd):
    folder = tmp_path / "here" / "it"
    assert main([str(bert), "-o", str(folder)]) == 0
    assert (folder / "rehydrate.json").is_file()
    assert capfd.readouterr().out.endswith(f"next: rehydrate model bench {folder}\n")
    assert not home.exists()


def test_a_model_that_is_there_stays_without_force(bert, capfd):
    assert main([str(bert)]) == 0
    assert main([str(bert)]) == 2
    assert capfd.readouterr().err.endswith("is there already; pass --force to replace it\n")
    assert main([str(bert), "--force"]) == 0


def test_a_model_that_is_not_understood_ends_in_one_line_and_exit_code_2(bert, capfd):
    edit_json(bert / "config.json", model_type="\x1b[31mgpt2")
    assert main([str(bert)]) == 2
    shown, said = capfd.readouterr()
    assert not shown
    assert "\x1b" not in said
    assert said.splitlines()[-1].startswith("convert: ")
    assert "model_type is" in said.splitlines()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on a file's size to set")
def test_a_disk_that_takes_no_more_leaves_nothing_behind(bert, home):
    """The limit holds for root too; a read-only folder would not stop root."""
    import resource

    limit = Path(bert, "model.safetensors").stat().st_size // 2
    done = subprocess.run(
        [sys.executable, "-m", "tools.convert", str(bert)],
        env=dict(os.environ),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 2
    assert b"cannot be written: File too large" in done.stderr
    assert list(home.iterdir()) == []
