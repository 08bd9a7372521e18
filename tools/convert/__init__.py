"""Conversion of a sentence-transformers BERT folder into ONNX, without torch.

    source -> architecture, modules, weights, tokenizer -> graph (fp32) | quantize (int8)
           -> verify against reference -> folder with its manifest

`python -m tools.convert SOURCE` in a checkout, with `pip install --group convert`.
"""

from tools.convert.conversion import Conversion as Conversion, convert as convert
