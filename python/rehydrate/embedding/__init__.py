"""Embedding: texts to vectors of length 1, by the built-in model, an ONNX model or your own."""
