"""Every rule of the Messages API: one request that it refuses, and the nearest that it takes."""

import pytest

from tests.provider.sdk_clients import anthropic_served, refusal_of

TOOL = {"name": "get", "input_schema": {"type": "object"}}
SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
ASK = {"role": "user", "content": "Go on."}
SAY = {"role": "assistant", "content": "It is done."}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def text(words="Well.", **more):
    return {"type": "text", "text": words, **more}


def use(call="toolu_1", **more):
    return {"type": "tool_use", "id": call, "name": "get", "input": {}, **more}


def result(call="toolu_1", **more):
    return {"type": "tool_result", "tool_use_id": call, "content": "found", **more}


def messages(*entries, **more):
    return {"messages": list(entries), **more}


def tool(**more):
    return {"tools": [{**TOOL, **more}]}


def marked(count, mark=SHORT):
    return messages(user(*(text(cache_control=mark) for _ in range(count))))


# The subject; the words of the refusal; the request refused; the nearest one is_accepted.
RULES = {
    "a request needs max_tokens": (
        "max_tokens: Field required",
        {"max_tokens": None},
        {"max_tokens": 1},
    ),
    "a request needs a model": ("model: Field required", {"model": None}, {}),
    "a request has no other fields": (
        "context: Extra inputs are not permitted",
        {"context": 1},
        {"metadata": {"user_id": "1"}},
    ),
    "there is a message": ("messages: at least one message is required", messages(), {}),
    "the user speaks first": (
        'messages: first message must use the "user" role',
        messages(SAY, ASK),
        messages(ASK, SAY, ASK),
    ),
    "the system isn't a message": (
        'messages: Unexpected role "system"',
        messages({"role": "system", "content": "Be."}, ASK),
        messages(ASK, system="Be."),
    ),
    "roles are two": (
        "messages.1.role: Input should be 'user' or 'assistant'",
        messages(ASK, {"role": "tool", "content": "x"}),
        messages(ASK, ASK),
    ),
    "a message has no other fields": (
        "messages.0.name: Extra inputs are not permitted",
        messages({**ASK, "name": "Ann"}),
        messages(ASK),
    ),
    "a block has no other fields": (
        "messages.0.content.0.text.id: Extra inputs are not permitted",
        messages(user(text(id="1"))),
        messages(user(text())),
    ),
    "a block is of a known type": (
        "messages.0.content.0: Input tag 'note' found using 'type'",
        messages(user({"type": "note"})),
        messages(user(text())),
    ),
    "content isn't null": (
        "messages.0.content: Input should be a valid list",
        messages({"role": "user", "content": None}),
        messages(user(text())),
    ),
    "a user's content is not empty": (
        "messages.0: user messages must have non-empty content",
        messages(user(), ASK),
        messages(user(text()), ASK),
    ),
    "an assistant's content is not empty": (
        "messages.1: all messages must have non-empty content except for the optional final",
        messages(ASK, {"role": "assistant", "content": ""}, ASK),
        messages(ASK, SAY, ASK),
    ),
    "a text is not empty": (
        "messages: text content blocks must be non-empty",
        messages(user(text(), text(""))),
        messages(user(text(), text("."))),
    ),
    "a text in a result is not empty": (
        "messages: text content blocks must be non-empty",
        messages(ASK, assistant(use()), user(result(content=[text("")])), **tool()),
        messages(ASK, assistant(use()), user(result(content="")), **tool()),
    ),
    "a message is not only whitespace": (
        "messages: text content blocks must contain non-whitespace text",
        messages(user(text("\n\n"))),
        messages(user(text("\n\n"), text())),
    ),
    "a text of the system is not empty": (
        "system: text content blocks must be non-empty",
        messages(ASK, system=[text("")]),
        messages(ASK, system=[text()]),
    ),
    "the user speaks last": (
        "The conversation must end with a user message.",
        messages(ASK, SAY),
        messages(ASK, SAY, ASK),
    ),
    "calls are the assistant's": (
        "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
        messages(user(use()), user(result()), **tool()),
        messages(ASK, assistant(use()), user(result()), **tool()),
    ),
    "results are the user's": (
        "messages.1.content.1: `tool_result` blocks can only be in `user` messages",
        messages(ASK, assistant(use(), result()), ASK, **tool()),
        messages(ASK, assistant(use()), user(result()), **tool()),
    ),
    "a call is answered": (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "toolu_1.",
        messages(ASK, assistant(use()), ASK, **tool()),
        messages(ASK, assistant(use()), user(result()), ASK, **tool()),
    ),
    "the last call is answered": (
        "messages.1: `tool_use` ids were found without",
        messages(ASK, assistant(use()), **tool()),
        messages(ASK, assistant(use()), user(result()), **tool()),
    ),
    "all calls are answered": (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "toolu_2.",
        messages(ASK, assistant(use(), use("toolu_2")), user(result()), **tool()),
        messages(
            ASK, assistant(use(), use("toolu_2")), user(result("toolu_2"), result()), **tool()
        ),
    ),
    "all results are in one message": (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "toolu_2.",
        messages(
            ASK, assistant(use(), use("toolu_2")), user(result()), user(result("toolu_2")), **tool()
        ),
        messages(
            ASK,
            assistant(use()),
            assistant(use("toolu_2")),
            user(result(), result("toolu_2")),
            **tool(),
        ),
    ),
    "results come first": (
        "messages.1: `tool_use` ids were found without",
        messages(ASK, assistant(use()), user(text(), result()), **tool()),
        messages(ASK, assistant(use()), user(result(), text()), **tool()),
    ),
    "a result answers the message before": (
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous",
        messages(ASK, SAY, user(result()), **tool()),
        messages(ASK, assistant(use()), user(result()), **tool()),
    ),
    "a result answers no earlier message": (
        "messages.4.content.0: unexpected `tool_use_id` found",
        messages(ASK, assistant(use()), user(result()), SAY, user(result()), **tool()),
        messages(
            ASK,
            assistant(use()),
            user(result()),
            assistant(use("toolu_2")),
            user(result("toolu_2")),
            **tool(),
        ),
    ),
    "a call has one result": (
        "messages.2.content.1: each tool_use must have a single result. Found multiple",
        messages(ASK, assistant(use()), user(result(), result()), **tool()),
        messages(ASK, assistant(use()), user(result()), **tool()),
    ),
    "ids are unique": (
        "messages.3.content.0: `tool_use` ids must be unique",
        messages(ASK, assistant(use()), user(result()), assistant(use()), user(result()), **tool()),
        messages(
            ASK,
            assistant(use()),
            user(result()),
            assistant(use("toolu_2")),
            user(result("toolu_2")),
            **tool(),
        ),
    ),
    "ids are of letters, digits, dashes": (
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        messages(ASK, assistant(use("call:1")), user(result("call:1")), **tool()),
        messages(ASK, assistant(use("call-1")), user(result("call-1")), **tool()),
    ),
    "an input is an object": (
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        messages(ASK, assistant(use(input="{}")), user(result()), **tool()),
        messages(ASK, assistant(use(input={"a": [1]})), user(result()), **tool()),
    ),
    "a server's result has its call": (
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks",
        messages(
            ASK,
            assistant(
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
            ),
            ASK,
        ),
        messages(
            ASK,
            assistant(
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            ),
            ASK,
        ),
    ),
    "calls need tools": (
        "Requests which include `tool_use` or `tool_result` blocks must define tools",
        messages(ASK, assistant(use()), user(result())),
        messages(ASK, assistant(use()), user(result()), **tool()),
    ),
    "a tool's name is of letters, digits, dashes": (
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        tool(name="get.it"),
        tool(name="get-it"),
    ),
    "tools' names are unique": (
        "tools: Tool names must be unique.",
        {"tools": [TOOL, TOOL]},
        {"tools": [TOOL, {**TOOL, "name": "put"}]},
    ),
    "a tool has a schema": (
        "tools.0.custom.input_schema: Field required",
        {"tools": [{"name": "get"}]},
        tool(),
    ),
    "a schema is of an object": (
        "tools.0.custom.input_schema.type: Input should be 'object'",
        tool(input_schema={"type": "array"}),
        tool(input_schema={"type": "object", "properties": {"a": {"anyOf": []}}}),
    ),
    "a schema isn't a choice": (
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the",
        tool(input_schema={"type": "object", "anyOf": []}),
        tool(input_schema={"type": "object", "required": []}),
    ),
    "a choice needs tools": (
        "tool_choice may only be specified while providing tools",
        {"tool_choice": {"type": "auto"}},
        {"tool_choice": {"type": "auto"}, **tool()},
    ),
    "a chosen tool is there": (
        "Tool 'put' not found in provided tools",
        {"tool_choice": {"type": "tool", "name": "put"}, **tool()},
        {"tool_choice": {"type": "tool", "name": "get"}, **tool()},
    ),
    "at most four marks": (
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        marked(5),
        marked(4),
    ),
    "marks count wherever they are": (
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        {
            **marked(2),
            "cache_control": SHORT,
            **tool(cache_control=SHORT),
            "system": [text(cache_control=SHORT)],
        },
        {**marked(2), **tool(cache_control=SHORT), "system": [text(cache_control=SHORT)]},
    ),
    "no mark on an empty text": (
        "system.0.text: cache_control cannot be set for empty text blocks",
        messages(ASK, system=[text("", cache_control=SHORT)]),
        messages(ASK, system=[text("B", cache_control=SHORT)]),
    ),
    "no mark on a message": (
        "messages.0.cache_control: Extra inputs are not permitted",
        messages({**ASK, "cache_control": SHORT}),
        messages(user(text(cache_control=SHORT))),
    ),
    "a mark has a known lifetime": (
        "messages.0.content.0.text.cache_control.ttl: Input should be '5m' or '1h'",
        marked(1, {"type": "ephemeral", "ttl": "2h"}),
        marked(1, LONG),
    ),
    "long marks come before short ones": (
        "messages.0.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come",
        messages(user(text(cache_control=SHORT), text(cache_control=LONG))),
        messages(user(text(cache_control=LONG), text(cache_control=SHORT))),
    ),
    "thinking has a budget": (
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        {"thinking": {"type": "enabled", "budget_tokens": 1000}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
    "thinking leaves tokens to say something": (
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2000},
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2001},
    ),
    "thinking has its temperature": (
        "`temperature` may only be set to 1 when thinking is enabled.",
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "temperature": 0.5},
        {"thinking": {"type": "adaptive"}, "temperature": 0.5},
    ),
    "thinking goes with no forced tool": (
        "Thinking may not be enabled when tool_choice forces tool use.",
        {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tool_choice": {"type": "any"},
            **tool(),
        },
        {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tool_choice": {"type": "auto"},
            **tool(),
        },
    ),
    "a prompt fits the window": (
        "prompt is too long: 30000 tokens > 20000 maximum",
        messages(user(text("x" * 105_000))),
        messages(user(text("x" * 55_000))),
    ),
    "a prompt and its answer fit the window": (
        "input length and `max_tokens` exceed context limit: 1000 + 19001 > 20000, decrease",
        {**messages(user(text("x" * 3500))), "max_tokens": 19_001},
        {**messages(user(text("x" * 3500))), "max_tokens": 19_000},
    ),
}


def request(changes):
    whole = {"model": "claude-test", "max_tokens": 4000, **messages(ASK), **changes}
    return {key: value for key, value in whole.items() if value is not None}


@pytest.fixture(scope="module")
def client():
    with anthropic_served(lambda request, wire: "Yes.", window_tokens=20_000) as (_, client):
        yield client


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_rule_is_refused_and_its_neighbour_taken(client, rule):
    words, broken, sound = RULES[rule]
    refusal = refusal_of(client, "/v1/messages", request(broken))
    assert refusal is not None
    assert refusal.startswith(words) or words in refusal
    assert refusal_of(client, "/v1/messages", request(sound)) is None


def test_tokens_of_what_is_refused_are_not_counted_either(client):
    sent = request({**messages(ASK, assistant(use()), ASK, **tool()), "max_tokens": None})
    refusal = refusal_of(client, "/v1/messages/count_tokens", sent)
    assert refusal.startswith("messages.1: `tool_use` ids were found")


def test_models_of_before_may_be_given_the_start_of_their_answer():
    with anthropic_served(lambda request, wire: "Yes.", prefill=True) as (_, client):
        for text, is_accepted in (("It is", True), ("", True), ("It is ", False)):
            sent = request(messages(ASK, {"role": "assistant", "content": text}))
            refusal = refusal_of(client, "/v1/messages", sent)
            assert (refusal is None) == is_accepted
        assert refusal == "messages: final assistant content cannot end with trailing whitespace"


def test_blocks_of_a_newer_api_are_known_where_a_test_says_so():
    with anthropic_served(lambda request, wire: "Yes.", extra_blocks=("note",)) as (_, client):
        sent = request(messages(user({"type": "note", "said": 1})))
        assert refusal_of(client, "/v1/messages", sent) is None
