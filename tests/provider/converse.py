"""A strict Converse: botocore's own check of the parameters, and the order that the service wants.

It shares no code with rehydrate. The order is that of the service's errors: "A conversation must
alternate between user and assistant roles", "A conversation must start with a user message",
"Expected toolResult blocks at messages.N.content for the following Ids", "The number of toolResult
blocks at messages.N.content exceeds the number of toolUse blocks of previous turn", "Messages can't
contain duplicate document names", "Cache point cannot be inserted after reasoning block", "A
maximum of 4 blocks with cache_control may be provided".
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest

Request = dict[str, Any]


@cache
def _shape() -> Any:
    session = pytest.importorskip("botocore.session").get_session()
    return session.get_service_model("bedrock-runtime").operation_model("Converse").input_shape


def refusal(request: Request) -> str | None:  # noqa: PLR0911  a list of reasons
    """Return why a request is refused; None for one that is taken."""
    validate = pytest.importorskip("botocore.validate")
    report = validate.ParamValidator().validate({"modelId": "m", **request}, _shape())
    if report.has_errors():
        return str(report.generate_report())
    messages = request["messages"]
    roles = [each["role"] for each in messages if each["role"] != "system"]
    if roles[:1] != ["user"]:
        return "starts with no user message"
    if any(one == other for one, other in pairwise(roles)):
        return "does not alternate"
    blocks = [block for each in messages for block in each["content"]]
    names = [block["document"]["name"] for block in blocks if "document" in block]
    if len(names) != len(set(names)) or len(names) > 5:
        return "document names or number"
    marks = [*blocks, *request.get("system", ()), *request.get("toolConfig", {}).get("tools", ())]
    if sum("cachePoint" in block for block in marks) > 4:
        return "more than 4 cache points"
    waiting: list[str] = []
    for number, message in enumerate(messages):
        why = _refused(message, waiting)
        if why:
            return f"message {number}: {why}"
        if message["role"] == "assistant":
            waiting = [
                block["toolUse"]["toolUseId"]
                for block in message["content"]
                if "toolUse" in block and "type" not in block["toolUse"]
            ]
        elif message["role"] == "user":
            waiting = []
    return f"unanswered: {waiting}" if waiting else None


def _refused(message: Request, waiting: list[str]) -> str | None:  # noqa: PLR0911  as above
    content = message["content"]
    if not content:
        return "empty"
    for before, block in zip([{}, *content], content, strict=False):
        texts = [block, *block.get("toolResult", {}).get("content", ())]
        if any("text" in each and not each["text"].strip() for each in texts):
            return "blank text"
        if "cachePoint" in block and "reasoningContent" in before:
            return "a cache point after reasoning"
    if any("document" in block for block in content) and not any("text" in b for b in content):
        return "a document without a text"
    if message["role"] == "assistant":
        is_odd = any({"image", "document"} & block.keys() for block in content)
        return "a medium of the assistant's" if is_odd else None
    kinds = ["toolResult" in block for block in content if "cachePoint" not in block]
    results = [block["toolResult"] for block in content if "toolResult" in block]
    if any("toolUse" in block for block in content) or kinds != sorted(kinds, reverse=True):
        return "blocks in the wrong place"
    if sorted(each["toolUseId"] for each in results) != sorted(waiting):
        return f"results do not answer {waiting}"
    is_bare = any(each.get("status") == "error" and not each["content"] for each in results)
    return "an error without a content" if is_bare else None
