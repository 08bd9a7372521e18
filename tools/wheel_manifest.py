"""`python -m tools.wheel_manifest musllinux-x86_64 3.11`: pyproject.toml for that wheel.

The wheels of one version differ in one requirement: onnxruntime is left out where it has no wheels,
since no marker could say so.
"""

from __future__ import annotations

import sys

from tools.check_wheel.names import NAME, WheelName, requires_onnxruntime
from tools.distributions import ROOT


def without_onnxruntime(manifest: str) -> str:
    """Return pyproject.toml without that line."""
    lines = manifest.splitlines(keepends=True)
    left = [line for line in lines if not line.startswith('  "onnxruntime')]
    if len(left) != len(lines) - 1:
        raise SystemExit("pyproject.toml has not one line that requires onnxruntime")
    return "".join(left)


def main(platform: str, python: str) -> None:
    """Edit pyproject.toml in place if the wheel needs that."""
    if not requires_onnxruntime(WheelName(NAME, "", python, python, platform)):
        file = ROOT / "pyproject.toml"
        file.write_text(without_onnxruntime(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
