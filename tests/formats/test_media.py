"""Pictures and documents count as their provider bills them, from the header of their bytes."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any

import pytest

from rehydrate import compact_context, count_tokens
from rehydrate.formats import parse


def png(width: int, height: int) -> bytes:
    header = struct.pack(">II", width, height) + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + header + bytes(5_000)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(50)


def jpeg(width: int, height: int) -> bytes:
    """With a thumbnail and a profile before the size, as cameras write them."""
    exif = b"\xff\xe1" + struct.pack(">H", 60_002) + b"\xff\xd8\xff\xc0" + bytes(59_996)
    profile = b"\xff\xe2" + struct.pack(">H", 3_002) + bytes(3_000)
    tables = b"\xff\xff\xff\xdb" + struct.pack(">H", 67) + bytes(65)
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8" + exif + profile + tables + frame + b"\xff\xda" + bytes(100)


def webp(kind: bytes, width: int, height: int) -> bytes:
    if kind == b"VP8 ":
        data = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    elif kind == b"VP8L":
        data = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
    else:
        sizes = [(side - 1).to_bytes(3, "little") for side in (width, height)]
        data = b"\0\0\0\0" + b"".join(sizes)
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + data + bytes(64)


def pdf(pages: int, *, at_end: bool = False, linearized: bool = False) -> bytes:
    tree = b"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count %d >>\nendobj\n" % pages
    inner = b"9 0 obj\n<</Type/Pages/Parent 2 0 R/Count 1>>\nendobj\n"
    outline = b"8 0 obj\n<< /Type /Outlines /Count 99 >>\nendobj\n"
    start = b"1 0 obj\n<< /Linearized 1 /L 9 /N %d /T 1 >>\nendobj\n" % pages if linearized else b""
    body = bytes(80_001)
    if linearized:
        tree = b""
    parts = [outline, body, inner, tree] if at_end else [inner, tree, outline, body]
    return b"%PDF-1.7\n" + start + b"".join(parts) + b"%%EOF"


PICTURES = {
    "png": png(1_024, 768),
    "gif": gif(1_024, 768),
    "jpeg": jpeg(1_024, 768),
    "webp, lossy": webp(b"VP8 ", 1_024, 768),
    "webp, lossless": webp(b"VP8L", 1_024, 768),
    "webp, extended": webp(b"VP8X", 1_024, 768),
}


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64(data)}"


def user(*blocks: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(blocks)}]


def anthropic(data: bytes) -> list[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": base64(data)}
    return user({"type": "image", "source": source})


def chat(data: bytes, **options: Any) -> list[dict[str, Any]]:
    return user({"type": "image_url", "image_url": {"url": url(data), **options}})


def responses(data: bytes, **options: Any) -> list[dict[str, Any]]:
    return user({"type": "input_image", "image_url": url(data), **options})


def bedrock(data: Any) -> list[dict[str, Any]]:
    return user({"image": {"format": "png", "source": {"bytes": data}}})


def gemini(data: Any, kind: str = "image/png", **options: Any) -> list[dict[str, Any]]:
    part = {"inlineData": {"mimeType": kind, "data": data}, **options}
    return [{"role": "user", "parts": [part]}]


CLAUDES = 37 * 28  # patches of 28 pixels
OPENAIS = 922  # 1.2 times 32 * 24 patches of 32 pixels


@pytest.mark.parametrize("data", PICTURES.values(), ids=PICTURES)
def test_a_picture_counts_by_its_size(data: bytes) -> None:
    assert count_tokens(anthropic(data)) == CLAUDES
    assert count_tokens(chat(data)) == count_tokens(responses(data)) == OPENAIS
    for each in (data, bytearray(data), memoryview(data)):
        assert count_tokens(bedrock(each)) == CLAUDES
        assert count_tokens(gemini(each)) == 1_120
    # As a thread keeps it.
    assert count_tokens(bedrock(base64(data)), format="bedrock") == CLAUDES


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n    "])
@pytest.mark.parametrize("length", [64, 76, 77])
def test_base64_in_lines_counts_as_in_one(length: int, ending: str) -> None:
    def counted(data: bytes, kind: str) -> int:
        text = base64(data)
        lines = [text[at : at + length] for at in range(0, len(text), length)]
        whole = ending + ending.join(lines) + ending
        source = {"type": "base64", "media_type": kind, "data": whole}
        as_url = {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{whole}"}}
        assert count_tokens(user(as_url)) == count_tokens(chat(data))
        return count_tokens(user({"type": "document", "source": source}))

    for data in PICTURES.values():
        assert counted(data, "image/png") == CLAUDES
    assert counted(pdf(3, at_end=True), "application/pdf") == 3 * 2_334
    forged = pdf(3).replace(b"/Count 3", b"/Count 99999999999")
    assert counted(forged, "application/pdf") == 2_334, "that of the inner node"


def test_a_number_that_is_cut_off_is_unknown() -> None:
    data = b"%PDF-1.7 2 0 obj << /Type /Pages /Count 99"
    assert count_tokens(anthropic(data)) == 1_600
    assert count_tokens(anthropic(data + b" >>")) == 99 * 2_334
    whole = base64(data + b"99999999 >>")
    broken = whole[: len(data) // 3 * 4] + "!" + whole[len(data) // 3 * 4 :]
    source = {"type": "base64", "media_type": "application/pdf", "data": broken}
    assert count_tokens(user({"type": "document", "source": source})) == 1_600


def test_it_counts_alike_wherever_it_is() -> None:
    data = PICTURES["png"]
    block = anthropic(data)[0]["content"][0]
    result = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
    line = {"type": "user", "uuid": "1", "message": user(block)[0]}
    output = {"type": "content", "value": [{"type": "image-data", "data": base64(data)}]}
    reported = {"type": "tool-result", "toolCallId": "a", "toolName": "see", "output": output}
    mcp = {"content": [{"type": "image", "data": base64(data), "mimeType": "image/png"}]}
    for messages, name in (
        (user(result), "anthropic"),
        ([line], "claude_code"),
        (user({"type": "image", "image": base64(data)}), "ai_sdk"),
        (user({"type": "image", "image": data}), "ai_sdk"),
        (user({"type": "file", "data": url(data), "mediaType": "image/png"}), "ai_sdk"),
        (user({"type": "file", "data": {"type": "data", "data": data}}), "ai_sdk"),
        ([{"role": "tool", "content": [reported]}], "ai_sdk"),
        (
            [{"role": "tool", "content": [{**reported, "output": {"type": "json", "value": mcp}}]}],
            "ai_sdk",
        ),
        ([{"id": "m", "role": "user", "parts": [{"type": "file", "url": url(data)}]}], "ai_sdk_ui"),
    ):
        assert count_tokens(messages, format=name) == CLAUDES, (messages, name)
    seen = {"type": "computer_screenshot", "image_url": url(data)}
    screen = {"type": "computer_call_output", "call_id": "a", "output": seen}
    drawn = {"type": "image_generation_call", "id": "i", "result": base64(data)}
    assert count_tokens([screen]) == count_tokens([drawn]) == OPENAIS
    ollama = [{"role": "user", "content": "", "images": [base64(data)]}]
    assert count_tokens(ollama, format="openai_chat") == OPENAIS


def test_openais_detail_is_followed() -> None:
    large = png(4_032, 3_024)
    assert count_tokens(chat(large)) == count_tokens(chat(large, detail="auto")) == 14_364
    assert count_tokens(chat(large, detail="original")) == 14_364
    assert count_tokens(chat(large, detail="high")) == 2_942
    assert count_tokens(responses(large, detail="high")) == 2_942
    assert count_tokens(responses(large, detail="low")) == 231  # 1.2 times 16 * 12
    assert count_tokens(responses(png(10, 10), detail="low")) == 2


def test_claude_scales_a_large_picture_down() -> None:
    assert count_tokens(anthropic(png(2_560, 1_440))) == 4_784
    assert count_tokens(anthropic(png(8_000, 8_000))) == 69 * 69
    assert count_tokens(anthropic(png(8_000, 100))) == 92 * 2
    assert count_tokens(anthropic(png(1, 1))) == 1


def test_geminis_resolution_is_followed() -> None:
    data = base64(PICTURES["jpeg"])
    level = {"level": "MEDIA_RESOLUTION_LOW"}
    assert count_tokens(gemini(data, mediaResolution=level)) == 280
    assert (
        count_tokens(gemini(data, media_resolution={"level": "MEDIA_RESOLUTION_ULTRA_HIGH"}))
        == 2_240
    )
    assert count_tokens(gemini(base64(b"heic"), "image/heic")) == 1_120
    at = {"fileData": {"fileUri": "gs://a/b.png", "mimeType": "image/png"}}
    assert count_tokens([{"role": "user", "parts": [at]}]) == 1_120
    assert count_tokens(gemini(base64(b"ID3"), "audio/mp3")) == 1_600


@pytest.mark.parametrize(
    "data",
    [pdf(3), pdf(3, at_end=True), pdf(3, linearized=True), pdf(3, at_end=True, linearized=True)],
)
def test_a_pdf_counts_by_its_pages(data: bytes) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": base64(data)}
    assert count_tokens(user({"type": "document", "source": source})) == 3 * 2_334
    file = {"filename": "a.pdf", "file_data": url(data, "application/pdf")}
    assert count_tokens(user({"type": "file", "file": file})) == 3 * 2_334
    document = {"format": "pdf", "name": "", "source": {"bytes": data}}
    assert count_tokens(user({"document": document}), format="bedrock") == 3 * 2_334
    assert count_tokens(gemini(base64(data), "application/pdf")) == 3 * 560


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 ", b"%PDF-1.7"),
        *(png(0, 5), gif(0, 0), b"\xff\xd8" + b"\xff" * 100_000, b"\xff\xd8\xff\xda\0\0"),
        *(b"\xff\xd8\xff\xe0\0\0" * 9, b"BM" + bytes(90), b"%PDF-1.7 /Type /Pages /Count -3"),
        *(b"%PDF-1.7 /Type /Pages /Count 99999999999999999999", b"<svg width='9'/>"),
    ],
)
def test_what_tells_no_size_counts_the_constant(data: bytes) -> None:
    assert count_tokens(anthropic(data)) == count_tokens(chat(data)) == 1_600
    assert count_tokens(bedrock(data)) == 1_600


@pytest.mark.parametrize(
    "address", ["https://a/b.png", "iVBO", "data:image/png,x", "data:", "�", "\ud800"]
)
def test_an_address_counts_the_constant(address: str) -> None:
    assert count_tokens(user({"type": "image_url", "image_url": address})) == 1_600
    assert count_tokens(user({"type": "image", "source": {"type": "url", "url": address}})) == 1_600
    assert (
        count_tokens(user({"type": "image", "source": {"type": "file", "file_id": address}}))
        == 1_600
    )


def test_a_pdf_of_absurdly_many_pages_is_bounded() -> None:
    source = {"type": "base64", "data": base64(pdf(4_000_000_000))}
    assert count_tokens(user({"type": "document", "source": source})) == 1_000 * 2_334


def test_a_released_view_counts_the_constant() -> None:
    view = memoryview(PICTURES["png"])
    view.release()
    assert count_tokens(bedrock(view)) == 1_600


def test_the_messages_hold_their_tokens() -> None:
    read = parse([*anthropic(PICTURES["png"]), *user({"type": "image", "source": {}})])
    assert [(each.images, each.media_tokens) for each in read.messages] == [
        (1, CLAUDES),
        (1, 1_600),
    ]


def test_a_small_picture_no_longer_costs_what_a_page_does() -> None:
    icon = anthropic(png(28, 28))[0]
    said = {"role": "assistant", "content": "An anchor."}
    messages = [message for _ in range(20) for message in (icon, said)]
    assert compact_context(messages, budget_tokens=500).stats.dropped == 0
