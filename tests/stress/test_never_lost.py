"""The command line loses nothing: a full disk, a closed pipe, a folder that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rehydrate.cli import BROKEN_PIPE
from rehydrate.cli.terminal import USAGE
from tests.sizes import PATIENCE_SECONDS
from tests.stress.programs import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full and pipes")

MESSAGES = [
    {"role": ("user", "assistant")[n % 2], "content": f"Turn {n} is about part_{n}.py. " * 40}
    for n in range(400)
]


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(MESSAGES), encoding="utf-8")
    return path


def rehydrate(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONUTF8": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    )
    command = [sys.executable, "-m", "rehydrate", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, **options)  # type: ignore[call-overload,no-any-return]


def ended(process: subprocess.Popen[bytes], chat: Path) -> tuple[int, str]:
    """Exit code and what was said, in one line at most; the input is as it was."""
    err = process.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    assert json.loads(chat.read_bytes()) == MESSAGES
    assert "Traceback" not in err
    assert err.count("\n") <= 1
    return process.returncode, err


@pytest.mark.parametrize("more", [(), ("--json",), ("--explain",), ("--json", "--explain")])
def test_a_full_disk_at_standard_output_is_reported(chat: Path, more: tuple[str, ...]):
    with Path("/dev/full").open("wb") as full:
        code, err = ended(rehydrate("compact", chat, *more, stdout=full), chat)
    assert code == USAGE
    assert err.startswith("rehydrate: standard output cannot be written: No space left")


def test_a_full_disk_under_the_output_file_is_reported(chat: Path):
    code, err = ended(rehydrate("compact", chat, "-o", "/dev/full"), chat)
    assert code == USAGE
    assert "/dev/full cannot be written: No space left" in err


def test_a_reader_that_went_away_is_no_failure_of_ours(chat: Path):
    process = rehydrate("compact", chat, "--ratio", "1", stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    process.stdout = None
    code, err = ended(process, chat)
    assert (code, err) == (BROKEN_PIPE, "")


def test_a_closed_standard_output_is_reported(chat: Path):
    command = f'exec "{sys.executable}" -m rehydrate compact "{chat}" >&-'
    done = subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == USAGE
    assert done.stderr.startswith(b"rehydrate: standard output")


@pytest.mark.parametrize("where", ["missing/small.json", "."])
def test_an_output_that_cannot_be_made_is_reported(chat: Path, where: str):
    target = chat.parent / where
    code, err = ended(rehydrate("compact", chat, "-o", target), chat)
    assert code == USAGE
    assert f"{target} cannot be written" in err.replace("\n", "")
    assert "name another file with -o" in err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_without_write_permission_is_reported(chat: Path):
    folder = chat.parent / "sealed"
    folder.mkdir(mode=0o500)
    code, err = ended(rehydrate("compact", chat, "-o", folder / "small.json"), chat)
    assert code == USAGE
    assert "Permission denied" in err


def test_a_file_that_was_there_survives_a_write_that_fails(chat: Path):
    kept = chat.parent / "kept.json"
    kept.write_text("what was there", encoding="utf-8")
    # A limit on file sizes stands in for the disk that fills up in the middle of the write.
    program = (
        "import resource, signal, sys; from rehydrate.cli import main; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, "compact", str(chat), "-o", str(kept)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == USAGE, done.stderr
    assert b"cannot be written: File too large" in done.stderr
    assert kept.read_text(encoding="utf-8") == "what was there"
    assert sorted(path.name for path in chat.parent.iterdir()) == ["chat.json", "kept.json"]
