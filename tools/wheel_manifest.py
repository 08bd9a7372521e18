"""`python -m tools.wheel_manifest musllinux-x86_64 3.11`: pyproject.toml for that wheel.

The wheels of one version differ in one requirement: onnxruntime is left out where it has no wheels,
since no marker could say so.
"""

from __future__ import annotations

import re
import sys
import tomllib

from tools.check_wheel.names import NAME, WheelName, requires_onnxruntime
from tools.distributions import ROOT

_REQUIREMENT = re.compile(r"""\s*(["'])onnxruntime(?![\w.-])""")


def without_onnxruntime(manifest: str) -> str:
    """Return pyproject.toml without the line that has that requirement alone."""
    lines = manifest.splitlines(keepends=True)
    left = "".join([line for line in lines if not _REQUIREMENT.match(line)])
    before, after = (_requirements(text) for text in (manifest, left))
    if after != [one for one in before if not one.startswith("onnxruntime")] or after == before:
        raise SystemExit("pyproject.toml has not one line that requires onnxruntime")
    return left


def _requirements(manifest: str) -> list[str]:
    required: list[str] = tomllib.loads(manifest)["project"].get("dependencies", [])
    return required


def main(platform: str, python: str) -> None:
    """Edit pyproject.toml in place if the wheel needs that."""
    if not requires_onnxruntime(WheelName(NAME, "", python, python, platform)):
        file = ROOT / "pyproject.toml"
        file.write_text(without_onnxruntime(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
