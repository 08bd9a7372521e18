"""Converting a sentence-transformers BERT folder into ONNX, without torch.

    source -> architecture, modules, weights, tokenizer -> graph (fp32) | quantize (int8)
           -> verify against reference -> folder with its manifest

Needs the extra `convert`: ``python -m pip install 'rehydrate[convert]'``.
"""

from rehydrate.embedding.convert.conversion import Conversion, convert
from rehydrate.embedding.convert.errors import ConversionError

__all__ = ["Conversion", "ConversionError", "convert"]
