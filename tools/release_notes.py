"""`python -m tools.release_notes v0.1.0`: what CHANGELOG.md says of that version."""

from __future__ import annotations

import os
import re
import sys

from tools.distributions import ROOT
from tools.wheel_manifest import Release


def notes(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading; exits if there is none."""
    found = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.M | re.S
    )
    if found is None or not found[1].strip():
        raise SystemExit(f"CHANGELOG.md has no section [{version}]; rename [Unreleased] to it")
    return found[1].strip() + "\n"


if __name__ == "__main__":
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if release := Release.of(os.environ):
        text = release.absolute(text)
    sys.stdout.write(notes(text, sys.argv[1].removeprefix("v")))
