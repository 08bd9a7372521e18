"""Script: a model for tests that replies from a list, in any provider's shape."""

import json

from rehydrate.agent import Reply
from rehydrate.cost import Usage
from rehydrate.formats.calls import ToolCall

PROVIDERS = ("anthropic", "openai_chat", "openai_responses")
BACKENDS = ("asyncio", "trio")
USAGE = Usage(uncached=100, output=10)


class Script:
    """Each line is a Reply, an error to raise, or a function of the prompt, sync or async.

    The last line repeats.
    """

    def __init__(self, *lines, provider="anthropic", name="claude-sonnet-4-5"):
        self.provider, self.name = provider, name
        self.lines, self.prompts = list(lines), []

    async def reply(self, prompt, *, on_text=None):
        self.prompts.append(prompt)
        line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        if callable(line):
            line = line(prompt)
            if hasattr(line, "__await__"):
                line = await line
        if isinstance(line, Exception):
            raise line
        if on_text:
            for word in line.text.split(" "):
                on_text(word)
        return line


def text_reply(text, provider="anthropic", stop="answer", usage=USAGE):
    if provider == "openai_responses":
        parts = [{"type": "output_text", "text": text}]
        entry = {"type": "message", "role": "assistant", "content": parts}
    elif provider == "anthropic":
        entry = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    else:
        entry = {"role": "assistant", "content": text}
    return Reply((entry,), text, usage=usage, stop=stop, model="m", id="r")


def call_reply(*calls, provider="anthropic", stop="calls", text="", usage=USAGE):
    """Return a reply with tool calls: each is an id, a tool's name and its arguments.

    The arguments are an object, or a text that is sent as it is.
    """
    if provider == "anthropic":
        blocks = [
            {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            for call_id, name, arguments in calls
        ]
        texts = [{"type": "text", "text": text}] if text else []
        entries = ({"role": "assistant", "content": texts + blocks},)
        call_entries = blocks
    elif provider == "openai_chat":
        call_entries = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": _json(arguments)},
            }
            for call_id, name, arguments in calls
        ]
        entries = ({"role": "assistant", "content": text or None, "tool_calls": call_entries},)
    else:
        call_entries = [
            {
                "type": "function_call",
                "call_id": call_id,
                "name": name,
                "arguments": _json(arguments),
            }
            for call_id, name, arguments in calls
        ]
        entries = tuple(call_entries)
    read_calls = tuple([ToolCall.read(each) for each in call_entries])
    return Reply(entries, text, read_calls, usage, stop, "m", "r")


def _json(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def results(history):
    """Return the contents of the tool results in a history by call id, in any provider's shape."""
    found = {}
    for entry in history:
        if entry.get("role") == "tool":
            found[entry["tool_call_id"]] = entry["content"]
        elif entry.get("type") == "function_call_output":
            found[entry["call_id"]] = entry["output"]
        elif isinstance(entry.get("content"), list):
            for block in entry["content"]:
                if block["type"] == "tool_result":
                    found[block["tool_use_id"]] = block["content"]
    return found
