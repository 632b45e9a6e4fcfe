"""A large corpus from small ones: paragraphs of the question sets, recombined into Markdown documents.

The corpus is deterministic: the same number of leaves gives the same documents. Real paragraphs keep the lengths, the vocabulary
and the sentence structure of real text. Recombining them gives any number of documents.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from mergewise import Document

BENCH = Path(__file__).parents[1] / "../shared/data/bench"
CHARACTERS_PER_LEAF = 220
SECTIONS, PARAGRAPHS = (4, 12), (1, 5)


def bench_folder() -> Path:
    if not BENCH.is_dir():
        sys.exit(f"question sets not found: {BENCH}")
    return BENCH


def paragraphs() -> list[tuple[str, str]]:
    """Return (title, paragraph) pairs of all question sets, without headings."""
    titled = []
    for name in ("hotpotqa", "musique", "2wiki", "squad", "covidqa"):
        with gzip.open(bench_folder() / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                parts = (part.strip() for part in row["text"].split("\n\n"))
                titled += [(row["title"], part) for part in parts if len(part) > 80 and not part.startswith("#")]
    return titled


def documents(leaves: int, seed: int = 0) -> Iterator[Document]:
    """Yield Markdown documents of a few sections each, about `leaves` leaves in total."""
    titled = paragraphs()
    draw = random.Random(seed)
    left = leaves * CHARACTERS_PER_LEAF
    number = 0
    while left > 0:
        title, _ = draw.choice(titled)
        blocks = [f"# {title}"]
        for _ in range(draw.randint(*SECTIONS)):
            heading, _ = draw.choice(titled)
            blocks.append(f"## {heading}")
            blocks += [draw.choice(titled)[1] for _ in range(draw.randint(*PARAGRAPHS))]
        text = "\n\n".join(blocks) + "\n"
        yield Document(id=f"doc-{number:06}", title=title, text=text)
        number += 1
        left -= len(text)


def questions(limit: int) -> list[str]:
    """Return real questions, alternating between the sets."""
    asked: list[str] = []
    for name in ("hotpotqa-long", "musique-long", "2wiki", "squad", "covidqa"):
        with gzip.open(bench_folder() / name / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
            asked += [json.loads(line)["question"] for line in lines][: -(-limit // 5)]
    random.Random(0).shuffle(asked)
    return asked[:limit]
