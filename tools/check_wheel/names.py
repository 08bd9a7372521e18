"""Names of distributions: version and tags, and the set of them that makes a release."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tools.distributions import ALL, CORE, OTHERS

NAME = CORE

PLATFORMS = {
    "manylinux x86_64": r"manylinux_2_\d+_x86_64",
    "manylinux aarch64": r"manylinux_2_\d+_aarch64",
    "musllinux x86_64": r"musllinux_1_\d+_x86_64",
    "musllinux aarch64": r"musllinux_1_\d+_aarch64",
    "macOS x86_64": r"macosx_\d+_\d+_x86_64",
    "macOS arm64": r"macosx_\d+_\d+_arm64",
    "Windows x86_64": r"win_amd64",
    "Windows arm64": r"win_arm64",
}

ABIS = {"stable": r"cp311-abi3", "free-threaded": r"cp3(1[4-9]|[2-9]\d)-cp3\1t"}
"""The stable ABI from 3.11 on, or one free-threaded version; nothing else."""


class WheelName(NamedTuple):
    """The parts of a wheel's file name."""

    name: str
    version: str
    python: str
    abi: str
    platform: str

    @staticmethod
    def parse(filename: str) -> WheelName | None:
        """Return the parts; None if there are not five."""
        parts = filename.removesuffix(".whl").split("-")
        return WheelName(*parts) if filename.endswith(".whl") and len(parts) == 5 else None


def requires_onnxruntime(name: WheelName) -> bool:
    """Return whether a wheel requires onnxruntime: whether that has wheels where this is installed.

    It has none for musl, and of free-threaded ones those for manylinux only. No marker tells these
    from the rest, so our wheels for them are without the requirement.
    """
    is_free_threaded = name.abi.endswith("t")
    return "musl" not in name.platform and ("linux" in name.platform or not is_free_threaded)


def wheel_problems(filename: str, version: str) -> Iterator[str]:
    """Yield the problems of a wheel's name."""
    name = WheelName.parse(filename)
    if name is None:
        yield "the name has not five parts: name-version-python-abi-platform.whl"
        return
    if name.name not in ALL or name.version != version:
        yield f"it is {name.name} {name.version}, expected {NAME} {version}"
    tag = f"{name.python}-{name.abi}"
    if name.name in OTHERS:
        if (tag, name.platform) != ("py3-none", "any"):
            yield f"its tag is {tag}-{name.platform}, expected py3-none-any: it is pure Python"
        return
    if not any(re.fullmatch(abi, tag) for abi in ABIS.values()):
        yield f"its tag is {tag}, expected cp311-abi3, or cp314-cp314t and later"
    for platform in name.platform.split("."):
        if not any(re.fullmatch(known, platform) for known in PLATFORMS.values()):
            yield f"its platform is {platform}, which no index takes or nobody tests"


def release_problems(filenames: Sequence[str], tag: str, version: str) -> Iterator[str]:
    """Yield the files missing of a release, and whether the tag differs from its version."""
    if tag != f"v{version}":
        yield f"the tag is {tag}, expected v{version}"
    if f"{NAME}-{version}.tar.gz" not in filenames:
        yield "there is no sdist"
    wheels = [name for filename in filenames if (name := WheelName.parse(filename))]
    for name in OTHERS:
        if f"{name}-{version}-py3-none-any.whl" not in filenames:
            yield f"there is no wheel of {name}"
    wheels = [wheel for wheel in wheels if wheel.name == NAME]
    for abi, abi_pattern in ABIS.items():
        for platform, pattern in PLATFORMS.items():
            if not _has(wheels, abi_pattern, pattern):
                yield f"there is no {abi} wheel for {platform}"


def _has(wheels: Iterable[WheelName], abi: str, platform: str) -> bool:
    return any(
        re.fullmatch(abi, f"{wheel.python}-{wheel.abi}")
        and any(re.fullmatch(platform, one) for one in wheel.platform.split("."))
        for wheel in wheels
    )
