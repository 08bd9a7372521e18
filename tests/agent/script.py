"""A model of the tests' own: says what a list says, in any provider's shape."""

import json

from rehydrate.agent import Reply
from rehydrate.cost import Usage
from rehydrate.formats.calls import ToolCall

PROVIDERS = ("anthropic", "openai_chat", "openai_responses")
BACKENDS = ("asyncio", "trio")
USAGE = Usage(uncached=100, output=10)


class Script:
    """Each line is a Reply, an error to raise, or a function (async too) of the prompt."""

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


def says(text, provider="anthropic", stop="answer", usage=USAGE):
    if provider == "openai_responses":
        parts = [{"type": "output_text", "text": text}]
        entry = {"type": "message", "role": "assistant", "content": parts}
    elif provider == "anthropic":
        entry = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    else:
        entry = {"role": "assistant", "content": text}
    return Reply((entry,), text, usage=usage, stop=stop, model="m", id="r")


def calls(*made, provider="anthropic", stop="calls", text="", usage=USAGE):
    """Each is an id, a tool's name and its arguments, as an object or raw."""
    if provider == "anthropic":
        blocks = [
            {"type": "tool_use", "id": call, "name": name, "input": given}
            for call, name, given in made
        ]
        said = [{"type": "text", "text": text}] if text else []
        entries = ({"role": "assistant", "content": said + blocks},)
        read = blocks
    elif provider == "openai_chat":
        read = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": _json(given)}}
            for call, name, given in made
        ]
        entries = ({"role": "assistant", "content": text or None, "tool_calls": read},)
    else:
        read = [
            {"type": "function_call", "call_id": call, "name": name, "arguments": _json(given)}
            for call, name, given in made
        ]
        entries = tuple(read)
    found = tuple([ToolCall.read(each) for each in read])
    return Reply(entries, text, found, usage, stop, "m", "r")


def _json(given):
    return given if isinstance(given, str) else json.dumps(given)


def results(history):
    """What the calls were answered with, by id, in any provider's shape."""
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
