"""The same in a loop of your own: three lines, marked below.

    python examples/own_loop.py

`ask_a_model` is the client that you have; here it is scripted, and OpenAI's chat is the wire
format. What is compacted away stays reachable: the model asks for it and gets it, word for word.
"""

from __future__ import annotations

import json

from rehydrate import Budget, Context
from rehydrate.context import ContextJIT


def ask_a_model(request: dict) -> dict:
    """The answer of `client.chat.completions.create(**request)`, as a dict."""
    last = request["messages"][-1]
    if last["role"] == "user" and "berth" not in last["content"]:
        return {"role": "assistant", "content": "Nothing unusual."}
    if last["role"] == "user":
        asked = json.dumps({"query": "how high is the mast of our boat?", "scope": "semantic"})
        function = {"name": "request_context", "arguments": asked}
        call = {"id": "call_1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    berth = "berth 7, which has no crane above it" if "24.5 m" in last["content"] else "any berth"
    return {"role": "assistant", "content": f"I took {berth}."}


context = Context(provider="openai_chat", budget=Budget(soft_tokens=2_000))
jit = ContextJIT(context)  # 1

context.add({"role": "user", "content": "Our boat is 14 m long and its mast is 24.5 m high."})
context.add({"role": "assistant", "content": "Noted."})
for day in range(1, 40):
    log = " ".join(f"quay_{day}_{hour}.log: {hour * day} boats" for hour in range(12))
    context.add({"role": "user", "content": f"Read me the log of day {day}."})
    context.add({"role": "assistant", "content": log})

for said in ("Anything unusual on the last days?", "Take a berth for us that our mast can reach."):
    prompt = context.prompt(said)
    shown, known = context.usage.visible_entries, "24.5 m" in str(prompt.request)
    print(
        f"> {said}\n  ({shown} of {len(context.history)} messages are in the prompt; the height of "
        f"the mast {'is' if known else 'is not'} among them)\n"
    )
    while True:
        reply = ask_a_model(prompt.request)
        context.add(reply)
        if not reply.get("tool_calls"):
            break
        for call in reply["tool_calls"]:
            if jit.handles(call):  # 2
                result = jit.handle(call)  # 3: in async code, `await jit.ahandle(call)`
                print(f"{result['content']}\n")
                context.add(result)
        prompt = context.prompt()
    print(f"{reply['content']}\n")
