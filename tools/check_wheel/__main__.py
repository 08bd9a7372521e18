"""`python -m tools.check_wheel dist/*`: a line for each problem, exit code 1 if there is one."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.check_wheel import contents, names
from tools.wheel_manifest import Release


def main(arguments: list[str] | None = None) -> int:
    """Check the named files.

    With `--release TAG` also that no file of a release is missing, with `--compiled FILE` that the
    sdist has each source that the compiler read.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--release", metavar="TAG", help="the tag that all of them are published by"
    )
    parser.add_argument(
        "--compiled", metavar="FILE", type=Path, help="what cargo wrote of a build: lib*.d"
    )
    asked = parser.parse_args(arguments)
    version = contents.project_version()
    read = contents.sources_read(asked.compiled) if asked.compiled else set()
    release = Release.of(os.environ)
    problems = [
        f"{file.name}: {problem}"
        for file in asked.files
        for problem in _problems(file, version, read, release)
    ]
    if asked.release is not None:
        if release is None:
            problems.append("no variable of GitHub names a tag, so the addresses aren't checked")
        reported = [file.name for file in asked.files]
        problems += names.release_problems(reported, asked.release, version)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(asked.files)} checked")
    return bool(problems)


def _problems(file: Path, version: str, read: set[str], release: Release | None) -> list[str]:
    if file.name.endswith(".tar.gz"):
        return list(contents.sdist_problems(file, read, release))
    return [*names.wheel_problems(file.name, version), *contents.wheel_problems(file, release)]


if __name__ == "__main__":
    sys.exit(main())
