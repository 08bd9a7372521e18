"""docs/rpc.md is true: its session is run, and the replies are compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import rehydrate
from rehydrate.rpc import serve

PAGE = (Path(__file__).parents[2] / "docs" / "rpc.md").read_text(encoding="utf-8")


def replies(data: str) -> list[str]:
    written: list[str] = []
    stream = iter([data.encode(), b""])
    serve(lambda _size: next(stream), written.append)
    return written


def test_the_session_goes_as_the_page_says():
    (session,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    lines = session.replace("VERSION", rehydrate.__version__).splitlines(keepends=True)
    asked = [line[2:] for line in lines if line.startswith("> ")]
    said = [line[2:] for line in lines if line.startswith("< ")]
    assert len(asked) + len(said) == len(lines)
    assert replies("".join(asked)) == said


def test_the_call_of_the_page_gives_the_result_of_the_page():
    request, shown = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    (reply,) = replies(request)
    result = json.loads(reply)["result"]
    expected, found = json.loads(shown), result["structured"]
    assert found["messages"] == expected["messages"]
    del expected["stats"]["elapsed_ms"]
    assert {name: found["stats"][name] for name in expected["stats"]} == expected["stats"]
    assert result["structuredContent"] == json.loads(result["content"][0]["text"]) == found
    assert result["isError"] is False


def test_the_shell_example_of_the_page_is_a_request_that_works():
    (request,) = re.findall(r"^echo '(.*?)' \| rehydrate rpc$", PAGE, re.S | re.M)
    (reply,) = replies(request)
    assert json.loads(reply)["result"]["isError"] is False
