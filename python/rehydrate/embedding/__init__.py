"""Embedding: texts to vectors of length 1, by the built-in model, an ONNX model or your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.embedding.embedder import (
        Embedder as Embedder,
    )
    from rehydrate.embedding.model_files import (
        installed_models as installed_models,
    )
    from rehydrate.embedding.onnx import (
        OnnxModel as OnnxModel,
        load_model as load_model,
    )
    from rehydrate.embedding.protocol import (
        Model as Model,
    )

__all__, __dir__, __getattr__ = front(__name__)
