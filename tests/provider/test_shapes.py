"""The shapes have the same fields as the types of the official SDKs."""

import typing

import anthropic.types as claude
import pytest
from openai.types import chat, responses
from openai.types.responses import response_input_item_param as items

from tests.provider import chat_shape, messages_shape, responses_shape


def fields_of(model):
    return {field.alias for field in model.model_fields.values()}


def typed(sdk_type):
    return set(typing.get_type_hints(sdk_type))


def kind_of(block):
    return typing.get_args(block.model_fields["type_"].annotation)[0]


CLAUDE = {kind_of(block): block for block in messages_shape.BLOCKS}


@pytest.mark.parametrize(
    ("model", "sdk_type", "other"),
    [
        (CLAUDE["text"], claude.TextBlockParam, set()),
        (CLAUDE["image"], claude.ImageBlockParam, set()),
        (CLAUDE["document"], claude.DocumentBlockParam, set()),
        (CLAUDE["search_result"], claude.SearchResultBlockParam, set()),
        (CLAUDE["tool_use"], claude.ToolUseBlockParam, set()),
        (CLAUDE["tool_result"], claude.ToolResultBlockParam, set()),
        (CLAUDE["thinking"], claude.ThinkingBlockParam, set()),
        (CLAUDE["redacted_thinking"], claude.RedactedThinkingBlockParam, set()),
        (CLAUDE["compaction"], claude.beta.BetaCompactionBlockParam, set()),
        (
            messages_shape.request_shape()[0],
            claude.message_create_params.MessageCreateParamsStreaming,
            # Headers; what the models before these had; and betas.
            {"user_profile_id", "workspace_id", "temperature", "top_k", "top_p"}
            | {"compaction", "context_management"},
        ),
        (chat_shape.MESSAGES["system"], chat.ChatCompletionSystemMessageParam, set()),
        (chat_shape.MESSAGES["user"], chat.ChatCompletionUserMessageParam, set()),
        (chat_shape.MESSAGES["assistant"], chat.ChatCompletionAssistantMessageParam, set()),
        (chat_shape.MESSAGES["tool"], chat.ChatCompletionToolMessageParam, set()),
        (
            chat_shape.request_shape(),
            chat.completion_create_params.CompletionCreateParamsStreaming,
            set(),
        ),
        (responses_shape.ITEMS["reasoning"], responses.ResponseReasoningItemParam, set()),
        (
            responses_shape.ITEMS["function_call"],
            responses.ResponseFunctionToolCallParam,
            {"async"},
        ),
        (responses_shape.ITEMS["function_call_output"], items.FunctionCallOutput, set()),
        (
            responses_shape.request_shape(),
            responses.response_create_params.ResponseCreateParamsStreaming,
            # Newer than what is written about them.
            {"access_programs", "background_options", "image"},
        ),
        (
            responses_shape.compact_shape(),
            responses.response_compact_params.ResponseCompactParams,
            {"image"},
        ),
    ],
)
def test_a_shape_has_the_fields_of_the_sdks_type(model, sdk_type, other):
    assert fields_of(model) - other == typed(sdk_type) - other
