"""Signer: signatures that prove later that a thinking block or item was not changed."""

from __future__ import annotations

import base64
import hashlib
import hmac


class Signer:
    """Signs texts with one key; a signature made with another key is not valid."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, *parts: str) -> str:
        content = b"\0".join(part.encode("utf-8", "surrogatepass") for part in parts)
        return base64.b64encode(hmac.digest(self._key, content, hashlib.sha256)).decode()

    def verify(self, signature: object, *parts: str) -> bool:
        return isinstance(signature, str) and hmac.compare_digest(
            signature.encode(), self.sign(*parts).encode()
        )
