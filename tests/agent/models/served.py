"""Gemini's and Bedrock's answers over HTTP on loopback, for the real google-genai and boto3."""

import binascii
import json
import struct
from contextlib import contextmanager
from functools import cache

import pytest

from rehydrate.agent import BedrockModel, GeminiModel
from tests.provider import converse, gemini
from tests.provider.loopback import Answer, LoopbackServer, json_answer

pytest.importorskip("google.genai")
pytest.importorskip("boto3")
from botocore.loaders import JSONFileLoader

MODELS = {"gemini": GeminiModel, "bedrock": BedrockModel}
REFUSALS = {"gemini": gemini.refusal, "bedrock": converse.refusal}


class Served:
    """Answers each request with the next of its answers, and keeps the requests."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = []
        self.paths = []
        self.server = LoopbackServer(self.answer)

    def answer(self, method, path, headers, body):
        self.paths.append(path)
        self.requests.append(json.loads(body))
        return self.answers.pop(0)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.port}"


@contextmanager
def served(*answers):
    serving = Served(answers)
    serving.server.start()
    try:
        yield serving
    finally:
        serving.server.stop()


def whole(provider, body):
    return json_answer(200, body, {"x-amzn-requestid": "r1"} if provider == "bedrock" else {})


def stream(provider, events, **how):
    encode = {"gemini": sse_event, "bedrock": aws_event}[provider]
    return Answer(200, tuple(map(encode, events)), is_stream=True, **how)


def error(provider, status, kind, message, **about):
    if provider == "bedrock":
        return json_answer(status, {"message": message}, {"x-amzn-errortype": kind, **about})
    body = {"error": {"code": status, "message": message, "status": kind, **about}}
    return json_answer(status, body)


def sse_event(event):
    return f"data: {json.dumps(event)}\r\n\r\n".encode()


def aws_event(event):
    """One message of AWS's binary event streams; an exception is {":exception": (kind, text)}."""
    ((kind, payload),) = event.items()
    headers = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
    if kind == ":exception":
        kind, text = payload
        headers = {":message-type": "exception", ":exception-type": kind}
        payload = {"message": text}
    packed = b"".join(
        struct.pack("!B", len(name))
        + name.encode()
        + struct.pack("!BH", 7, len(value))
        + value.encode()
        for name, value in headers.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(packed) + len(body), len(packed))
    message = prelude + struct.pack("!I", binascii.crc32(prelude)) + packed + body
    return message + struct.pack("!I", binascii.crc32(message))


_load = cache(JSONFileLoader().load_file)


@pytest.fixture
def aws_keys(monkeypatch, tmp_path):
    """Credentials and a region, and nothing of this machine's own; boto3 reads its files once."""
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda _self, path: _load(path))
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_CONFIG_FILE", str(tmp_path / "none")),
        ("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none")),
    ):
        monkeypatch.setenv(name, value)
