"""A BERT encoder as an ONNX graph, in fp32 or int8: token ids in, pooled vectors of length 1 out.

Only standard operators. Measured on one thread over chat-like messages, ONNX Runtime's fused forms
for BERT (Attention, MultiHeadAttention, BiasGelu, MatMulNBits) were within 3% of these or slower.
Its SkipLayerNormalization cost seven times the LayerNormalization and Add it replaces. ONNX Runtime
fuses what is worth fusing when it loads the graph.

int8 weights have a scale for each output of a layer, and for each row of the vocabulary.

The int8 graph is built, not converted from the fp32 one: it is the same graph with another way to
multiply. Activations are quantised at run time by DynamicQuantizeMatMul, the only operator of ONNX
Runtime's own that the graph needs; it has no standard form in one step.

That operator takes one scale for the whole of its input, so texts of one batch share a scale. The
same text differs in the third decimal place between batches, but not when texts go through one by
one.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rehydrate._native import __version__
from tools.convert.bert import Architecture, Array, Pooling, Weights

OPSET = 20
"""The first with Gelu as an operator; ONNX Runtime reads it from 1.17 on."""
IR_VERSION = 9
CONTRIB = "com.microsoft"
_MASKED = np.float32(-1e9)


class Nodes:
    """Nodes and constants in the order they are added; a value is referred to by its name."""

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; returns the output's name."""
        (output,) = self.add_many(1, operator, *inputs, domain=domain, **attributes)
        return output

    def add_many(
        self, outputs: int, operator: str, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs; returns their names."""
        name = f"{operator}_{len(self.nodes)}"
        names = [name, *(f"{name}_{index}" for index in range(1, outputs))]
        self.nodes.append(
            helper.make_node(operator, inputs, names, name=name, domain=domain, **attributes)
        )
        return names

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant once; returns its name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def integers(self, *values: int) -> str:
        """A list of int64, for the operators that take axes and shapes as inputs."""
        return self.constant(f"int64_{'_'.join(map(str, values))}", np.array(values, np.int64))


class Precision(Protocol):
    """How the weights are stored and multiplied: the only difference between two graphs."""

    def lookup(self, nodes: Nodes, name: str, table: Array, ids: str) -> str:
        """Return the rows of `table` at `ids`."""

    def linear(self, nodes: Nodes, name: str, x: str, weight: Array, bias: Array) -> str:
        """Return x @ weight.T + bias."""


class Float32:
    """The reference: every weight unchanged."""

    def lookup(self, nodes: Nodes, name: str, table: Array, ids: str) -> str:
        """Return the rows of `table` at `ids`."""
        return nodes.add("Gather", nodes.constant(name, table), ids)

    def linear(self, nodes: Nodes, name: str, x: str, weight: Array, bias: Array) -> str:
        """Return x @ weight.T + bias."""
        product = nodes.add("MatMul", x, nodes.constant(f"{name}.weight", weight.T))
        return nodes.add("Add", product, nodes.constant(f"{name}.bias", bias))


def build(
    architecture: Architecture, weights: Weights, pooling: Pooling, precision: Precision
) -> onnx.ModelProto:
    """Build the whole model.

    Inputs `input_ids` and `attention_mask`, int64 [batch, tokens], texts at the left of their rows;
    output `sentence_embedding`, float32 [batch, hidden].
    """
    nodes = Nodes()
    bert = _Bert(nodes, architecture, weights, precision)
    _pool(nodes, bert.encode("input_ids", "attention_mask"), pooling)
    graph = helper.make_graph(
        nodes.nodes,
        "sentence_embedding",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ],
        [
            helper.make_tensor_value_info(
                "sentence_embedding", TensorProto.FLOAT, ["batch", architecture.hidden]
            )
        ],
        list(nodes.constants.values()),
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)],
        ir_version=IR_VERSION,
        producer_name="rehydrate",
        producer_version=__version__,
    )


class _Bert:
    """The encoder, one method for each part; names in the graph are those of the weights."""

    def __init__(
        self, nodes: Nodes, architecture: Architecture, weights: Weights, precision: Precision
    ) -> None:
        self.nodes = nodes
        self.architecture = architecture
        self.weights = weights
        self.precision = precision

    def encode(self, ids: str, mask: str) -> str:
        """Return [batch, tokens, hidden] after the last layer."""
        penalty = self._penalty(mask)
        x = self._embed(ids)
        for layer in range(self.architecture.layers):
            name = f"encoder.layer.{layer}"
            attended = self._attend(f"{name}.attention.self", x, penalty)
            projected = self._linear(f"{name}.attention.output.dense", attended)
            x = self._norm(
                f"{name}.attention.output.LayerNorm", self.nodes.add("Add", x, projected)
            )
            inner = self.nodes.add("Gelu", self._linear(f"{name}.intermediate.dense", x))
            outer = self._linear(f"{name}.output.dense", inner)
            x = self._norm(f"{name}.output.LayerNorm", self.nodes.add("Add", x, outer))
        return x

    def _embed(self, ids: str) -> str:
        name = "embeddings.word_embeddings.weight"
        words = self.precision.lookup(self.nodes, name, self.weights[name], ids)
        # A single text is all of the first kind, so that kind is added to the position.
        places = (
            self.weights["embeddings.position_embeddings.weight"]
            + self.weights["embeddings.token_type_embeddings.weight"][0]
        )
        table = self.nodes.constant("embeddings.position_and_type.weight", places)
        tokens = self.nodes.add("Shape", ids, start=1, end=2)
        zero = self.nodes.integers(0)
        first = self.nodes.add("Slice", table, zero, tokens, zero)
        return self._norm("embeddings.LayerNorm", self.nodes.add("Add", words, first))

    def _penalty(self, mask: str) -> str:
        """Return 0 for a token, -1e9 for padding: [batch, 1, 1, tokens], for attention's scores."""
        present = self.nodes.add("Cast", mask, to=TensorProto.FLOAT)
        one = self.nodes.constant("one", np.array(1, np.float32))
        scale = self.nodes.constant("masked", np.array(_MASKED))
        absent = self.nodes.add("Mul", self.nodes.add("Sub", one, present), scale)
        return self.nodes.add("Unsqueeze", absent, self.nodes.integers(1, 2))

    def _attend(self, name: str, x: str, penalty: str) -> str:
        heads = self.architecture.heads
        size = self.architecture.hidden // heads
        # One product for all three, the scale inside the query's weights.
        scale = np.float32(size**-0.5)
        parts = [
            (self.weights[f"{name}.{part}.weight"], self.weights[f"{name}.{part}.bias"])
            for part in ("query", "key", "value")
        ]
        weight = np.concatenate([parts[0][0] * scale, parts[1][0], parts[2][0]])
        bias = np.concatenate([parts[0][1] * scale, parts[1][1], parts[2][1]])
        joint = self.precision.linear(self.nodes, f"{name}.query_key_value", x, weight, bias)
        split = self.nodes.add("Reshape", joint, self.nodes.integers(0, 0, 3, heads, size))
        by_part = self.nodes.add("Transpose", split, perm=[2, 0, 3, 1, 4])
        query, key, value = [
            self.nodes.add("Squeeze", part, self.nodes.integers(0))
            for part in self.nodes.add_many(3, "Split", by_part, axis=0, num_outputs=3)
        ]
        across = self.nodes.add("Transpose", key, perm=[0, 1, 3, 2])
        scores = self.nodes.add("Add", self.nodes.add("MatMul", query, across), penalty)
        mixed = self.nodes.add("MatMul", self.nodes.add("Softmax", scores, axis=-1), value)
        together = self.nodes.add("Transpose", mixed, perm=[0, 2, 1, 3])
        shape = self.nodes.integers(0, 0, self.architecture.hidden)
        return self.nodes.add("Reshape", together, shape)

    def _linear(self, name: str, x: str) -> str:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return self.precision.linear(self.nodes, name, x, weight, bias)

    def _norm(self, name: str, x: str) -> str:
        weight, bias = (
            self.nodes.constant(f"{name}.{part}", self.weights[f"{name}.{part}"])
            for part in ("weight", "bias")
        )
        epsilon = self.architecture.epsilon
        return self.nodes.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=epsilon)


def _pool(nodes: Nodes, x: str, pooling: Pooling) -> None:
    """Add one vector of length 1 per text. The sum equals the mean: lengths become 1 after it."""
    if pooling == "mean":
        present = nodes.add("Cast", "attention_mask", to=TensorProto.FLOAT)
        row = nodes.add("Unsqueeze", present, nodes.integers(1))
        pooled = nodes.add("Squeeze", nodes.add("MatMul", row, x), nodes.integers(1))
    else:
        pooled = nodes.add("Gather", x, nodes.constant("first", np.array(0, np.int64)), axis=1)
    nodes.nodes.append(
        helper.make_node("LpNormalization", [pooled], ["sentence_embedding"], axis=-1, p=2)
    )


_LARGEST = np.float32(127)


class Int8:
    """The precision for speed: about 2.4 times as fast and a quarter of the size."""

    def lookup(self, nodes: Nodes, name: str, table: Array, ids: str) -> str:
        """Return the rows of `table` at `ids`, converted to float."""
        rows, scales = quantize_rows(table)
        row = nodes.add("Gather", nodes.constant(f"{name}.int8", rows), ids)
        scale = nodes.add("Gather", nodes.constant(f"{name}.scale", scales[:, None]), ids)
        return nodes.add("Mul", nodes.add("Cast", row, to=TensorProto.FLOAT), scale)

    def linear(self, nodes: Nodes, name: str, x: str, weight: Array, bias: Array) -> str:
        """Return x @ weight.T + bias."""
        rows, scales = quantize_rows(weight)
        return nodes.add(
            "DynamicQuantizeMatMul",
            x,
            nodes.constant(f"{name}.weight.int8", rows.T),
            nodes.constant(f"{name}.weight.scale", scales),
            "",  # no zero points: the scales are symmetric
            nodes.constant(f"{name}.bias", bias),
            domain=CONTRIB,
        )


def quantize_rows(matrix: Array) -> tuple[NDArray[np.int8], Array]:
    """Return rows of int8 and their scales: `rows * scales[:, None]` is within half a scale of
    `matrix`.

    >>> rows, scales = quantize_rows(np.array([[0.5, -1.0], [0.0, 0.0]], np.float32))
    >>> rows.tolist(), [round(float(scale), 6) for scale in scales]
    ([[64, -127], [0, 0]], [0.007874, 1.0])
    """
    scales = np.abs(matrix).max(axis=1) / _LARGEST
    scales[scales == 0] = 1
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales
