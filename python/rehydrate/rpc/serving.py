"""serve: from bytes that come in to replies that go out, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from rehydrate.compact.recall import Memory
from rehydrate.rpc.answering import Server
from rehydrate.rpc.reading import Parsed, Piece, Splitter

READ_BYTES = 2**20


def serve(
    read: Callable[[int], bytes], write: Callable[[str], None], memory: Memory | None = None
) -> None:
    r"""Answer requests until `read` gives no more bytes.

    ``read(n)`` waits for some bytes, at most n; ``write`` takes a whole reply, line end included,
    and sends it at once. A sender that puts `Content-Length` headers before its requests gets
    replies with such headers. What is compacted is compacted with the ``memory``.

    >>> import io
    >>> stream = io.BytesIO(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    >>> serve(stream.read1, print)
    {"jsonrpc":"2.0","id":1,"result":{}}
    <BLANKLINE>
    """
    splitter, server = Splitter(), Server(memory)

    def answer(pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Parsed):
                reply = server.answer(piece.value)
            else:
                reply = server.refuse(piece.reason)
            if reply is None:
                continue
            if splitter.has_headers:
                # Escaped or not, what the header counts are bytes.
                write(f"Content-Length: {len(reply.encode())}\r\n\r\n{reply}")
            else:
                write(reply + "\n")

    while data := read(READ_BYTES):
        answer(splitter.feed(data))
    answer(splitter.close())
