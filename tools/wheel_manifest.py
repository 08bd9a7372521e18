"""`python -m tools.wheel_manifest [musllinux-x86_64 3.11]`: the manifests as they are built.

The wheels of one version differ in one requirement: onnxruntime is left out where it has no wheels,
since no marker could say so. At a release, all manifests get [project.urls] and README.md absolute
links: only the environment of the workflow knows the repository's address and the tag.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tools.check_wheel.names import NAME, WheelName, requires_onnxruntime
from tools.distributions import ALL, ROOT, folder

_RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")


class Release(NamedTuple):
    """The repository's address and the tag that is released."""

    repository: str
    tag: str

    @staticmethod
    def of(environ: Mapping[str, str]) -> Release | None:
        """Return what GitHub's variables name; None if no tag is built.

        >>> names = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r"}
        >>> Release.of({**names, "GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v1"})
        Release(repository='https://github.com/o/r', tag='v1')
        """
        if environ.get("GITHUB_REF_TYPE") != "tag":
            return None
        address = f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}"
        return Release(address, environ["GITHUB_REF_NAME"])

    @property
    def urls(self) -> dict[str, str]:
        """The entries of [project.urls]."""
        return {
            "Homepage": self.repository,
            "Documentation": f"{self.repository}/blob/{self.tag}/docs/index.md",
            "Source": f"{self.repository}/tree/{self.tag}",
            "Changelog": f"{self.repository}/blob/{self.tag}/CHANGELOG.md",
            "Issues": f"{self.repository}/issues",
        }

    def absolute(self, text: str) -> str:
        """Return a text of the repository's root, with absolute links and pictures.

        >>> Release("https://h/o/r", "v1").absolute("![p](a.png), [page](docs/index.md#x), [#](#y)")
        '![p](https://h/o/r/raw/v1/a.png), [page](https://h/o/r/blob/v1/docs/index.md#x), [#](#y)'
        """

        def made(link: re.Match[str]) -> str:
            way = "raw" if link[1] else "blob"
            return f"{link[1]}{link[2]}({self.repository}/{way}/{self.tag}/{link[3]})"

        return _RELATIVE.sub(made, text)


def name_addresses(release: Release, root: Path = ROOT) -> None:
    """Add [project.urls] to the manifests of a tree; make the links and pictures of its README
    absolute."""
    table = "".join(f'{name} = "{url}"\n' for name, url in release.urls.items())
    for name in ALL:
        manifest = folder(name, root) / "pyproject.toml"
        text = manifest.read_text(encoding="utf-8")
        manifest.write_text(f"{text}\n[project.urls]\n{table}", encoding="utf-8")
    readme = root / "README.md"
    readme.write_text(release.absolute(readme.read_text(encoding="utf-8")), encoding="utf-8")


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


def main(platform: str = "", python: str = "") -> None:
    """Edit the tree in place as far as this build needs it; a platform is that of the core."""
    if platform and not requires_onnxruntime(WheelName(NAME, "", python, python, platform)):
        file = ROOT / "pyproject.toml"
        file.write_text(without_onnxruntime(file.read_text(encoding="utf-8")), encoding="utf-8")
    if release := Release.of(os.environ):
        name_addresses(release)


if __name__ == "__main__":
    main(*sys.argv[1:])
