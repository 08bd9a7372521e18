"""The provider's tests need the official SDKs; without them none is collected."""

from importlib.util import find_spec

if not (find_spec("anthropic") and find_spec("openai")):
    collect_ignore_glob = ["test_*.py"]
