"""Conversion of a sentence-transformers BERT folder into ONNX, without torch.

    source -> architecture, modules, weights, tokenizer -> graph (fp32) | quantize (int8)
           -> verify against reference -> folder with its manifest

Needs the extra `convert`: ``python -m pip install 'rehydrate[convert]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.convert.conversion import (
        Conversion as Conversion,
        convert as convert,
    )

__all__, __dir__, __getattr__ = front(__name__)
