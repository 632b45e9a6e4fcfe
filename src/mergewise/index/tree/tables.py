"""The tables of the tree: leaves, sections, and the names that they define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice, pairwise
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.index.tree.embedding import embed_leaves
from mergewise.store.tables import SerializedColumn, Table
from mergewise.text.languages import VERSION
from mergewise.text.sections import search_key, split_key
from mergewise.types import Kind, Lead, Leaf, Name, Section, Sentence


def pack_key(record: Any) -> str:
    """Return the text to search and embed: title and headings on the first line, then the text."""
    return search_key(record.title, record.headings, record.text)


def unpack_key(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    """Return title, headings and text of each row."""
    parts = list(map(split_key, rows["key"].to_pylist()))
    titles, headings, texts = zip(*parts, strict=True) if parts else ((), (), ())
    return {"title": titles, "headings": headings, "text": texts}


def _unpack_spanned_key(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    """Return title, headings, text and the computed end of each row."""
    unpacked = unpack_key(rows)
    ends = [start + len(text) for start, text in zip(rows["start"].to_pylist(), unpacked["text"], strict=True)]
    return {**unpacked, "end": ends}


SPANNED_KEY = SerializedColumn(
    "key", pa.string(), pack_key, _unpack_spanned_key, ("title", "headings", "text", "end"), ("start",)
)
KEY = SerializedColumn("key", pa.string(), pack_key, unpack_key, ("title", "headings", "text"))


# Kinds by their stored number. The number is in the bits above those of the tokens, and 0 in older indexes.
_KINDS = (None, *get_args(Kind))
_TOKEN_BITS = 24


def pack_sentences(leaf: Leaf) -> list[int]:
    """Return three numbers a sentence: start and end relative to the leaf, and tokens with the kind."""
    return [
        number
        for start, end, tokens, kind in leaf.sentences
        for number in (start - leaf.start, end - leaf.start, tokens | _KINDS.index(kind) << _TOKEN_BITS)
    ]


def unpack_sentences(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    counts = pc.list_value_length(rows["sentences"]).to_numpy() // 3
    numbers = rows["sentences"].combine_chunks().flatten().to_numpy().reshape(-1, 3).astype(np.int64)
    numbers[:, :2] += rows["start"].to_numpy().repeat(counts)[:, None]
    kinds = map(_KINDS.__getitem__, (numbers[:, 2] >> _TOKEN_BITS).tolist())
    numbers[:, 2] &= (1 << _TOKEN_BITS) - 1
    # without the keywords of a call: a context reads hundreds of sentences
    made = map(partial(tuple.__new__, Sentence), zip(*numbers.T.tolist(), kinds, strict=True))
    return {"sentences": [tuple(islice(made, count)) for count in counts.tolist()]}


SENTENCES = SerializedColumn(
    "sentences", pa.list_(pa.int32()), pack_sentences, unpack_sentences, ("sentences",), ("start",)
)


def unpack_leads(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    packed = rows["leads"].to_pylist()
    return {"leads": [tuple(map(Lead, numbers[::3], numbers[1::3], numbers[2::3])) for numbers in packed]}


LEADS = SerializedColumn(
    "leads", pa.list_(pa.int32()), lambda leaf: [n for lead in leaf.leads for n in lead], unpack_leads, ("leads",)
)


def unpack_sentence_vectors(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    """Return the unit vectors of each leaf's sentences from bytes, or None for a leaf without them."""
    packed = rows["sentence_vectors"].to_pylist()
    counts = (pc.list_value_length(rows["sentences"]).to_numpy() // 3).tolist()
    counts = [0 if vectors is None else count for vectors, count in zip(packed, counts, strict=True)]
    if not sum(counts):
        return {"vectors": [None] * len(packed)}
    present = [vectors for vectors in packed if vectors is not None]
    whole = np.frombuffer(b"".join(present), np.int8).reshape(sum(counts), -1).astype(np.float32)
    whole /= np.sqrt(np.einsum("ij,ij->i", whole, whole))[:, None].clip(1e-9)
    ends = pairwise(np.cumsum([0, *counts]).tolist())
    return {"vectors": [None if v is None else whole[a:b] for v, (a, b) in zip(packed, ends, strict=True)]}


SENTENCE_VECTORS = SerializedColumn(
    "sentence_vectors", pa.binary(), None, unpack_sentence_vectors, ("vectors",), ("sentences",)
)


def name_digest(name: str) -> bytes:
    """Hash a name to a little-endian number of 64 bits. The result must never change between versions."""
    return blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()


NAME_HASH = SerializedColumn(
    "hash", pa.int64(), lambda name: int.from_bytes(name_digest(name.name), "little", signed=True)
)

WORDS = f"words_{VERSION}"
"""The column of search words for leaves in languages other than English."""

LEAF = Table(
    "leaf",
    Leaf,
    (SPANNED_KEY, SENTENCES, LEADS, SENTENCE_VECTORS),
    vectors=("vector",),
    text="key",
    words=WORDS,
    mapped=True,
    embed=embed_leaves,
)
SECTION = Table("section", Section, keys=("id",), mapped=True)
NAME = Table("name", Name, (NAME_HASH,), keys=())
