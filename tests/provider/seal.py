"""Seals: what the provider writes beside a thought, to know later that nobody changed it."""

from __future__ import annotations

import base64
import hashlib
import hmac


class Seal:
    """Signs texts with a key of its own; two providers do not know each other's seals."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, *parts: str) -> str:
        told = b"\0".join(part.encode("utf-8", "surrogatepass") for part in parts)
        return base64.b64encode(hmac.digest(self._key, told, hashlib.sha256)).decode()

    def fits(self, seal: object, *parts: str) -> bool:
        return isinstance(seal, str) and hmac.compare_digest(
            seal.encode(), self.of(*parts).encode()
        )
