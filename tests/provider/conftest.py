"""Tests of the provider need the official SDKs: where they are missing, none is collected."""

from importlib.util import find_spec

if not (find_spec("anthropic") and find_spec("openai")):
    collect_ignore_glob = ["test_*.py"]
