"""The error of a missing Claude Agent SDK."""

from rehydrate.errors import MissingPackageError

MISSING = MissingPackageError("rehydrate[claude-agent-sdk]", "brings the Claude Agent SDK")
