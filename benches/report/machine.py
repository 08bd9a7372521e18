"""The machine and the versions of the figures."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from importlib import metadata
from pathlib import Path

from benches.report.figures import ROOT, moment


def about() -> dict[str, str]:
    """Return the machine and the versions of the figures."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        "?",
    )
    memory = next(
        (line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0"
    )
    packages = (
        "rehydrate",
        "numpy",
        "tiktoken",
        "tokenizers",
        "onnxruntime",
        "usearch",
        "chromadb",
        "langchain-core",
        "pytest-benchmark",
    )
    return {
        "processor": f"{cpu}, {os.cpu_count()} cores, {int(memory) / 2**20:.0f} GiB",
        "commit": _output_of("git", "rev-parse", "--short", "HEAD")
        + (" and changes" if _output_of("git", "status", "-s") else ""),
        "Rust": _output_of("rustc", "--version"),
        "Python": sys.version.split()[0],
        "packages": ", ".join(f"{name} {_version(name)}" for name in packages),
    }


def newest_source() -> datetime:
    """Return when a source of the core was last changed: earlier figures are not about it."""
    folder = ROOT / "rust" / "rehydrate-core" / "src"
    return moment(max(file.stat().st_mtime for file in folder.rglob("*.rs")))


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def _output_of(*command: str) -> str:
    try:
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"
