"""Fixtures of stored threads."""

import pytest


@pytest.fixture(params=["file", "postgres"])
def where(request, tmp_path):
    """Where threads lie: each test runs on a file and on a server."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return tmp_path / "threads.db"
