"""Cost of merging with a model: sentence numbers against copied text, and a hierarchy against sequential merges.

python -m benchmarks.mergerag [--chunks 16] [--left 2] [--at-once 8] [--pause 0.02] [--pairs asymmetric]

The model is a scripted HTTP endpoint that reports token usage and sleeps for each output token. Chunks are about 200 tokens of a
question set. The model keeps the same half of a pair's sentences whether it points at them or copies them, so all forms
make the same merges.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from time import perf_counter

from tests.chat_server import ChatServer

from benchmarks.corpus import bench_folder
from mergewise import concurrency
from mergewise.designs.mergerag.notes import MergeNote
from mergewise.designs.strategies import merge_context
from mergewise.evaluate.loaders import load_question_set
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.record import Models
from mergewise.models.scripted import Turn
from mergewise.models.tokens import count_tokens
from mergewise.text.sentences import split_sentences
from mergewise.types import Context, Message, Passage, Span

CHUNK_TOKENS = 200


def chunks(name: str, count: int) -> list[Passage]:
    """Return stretches of whole sentences, one per document, without line breaks. The first is the most relevant."""
    passages = []
    for document in load_question_set(bench_folder() / name).documents:
        paragraph = max(document.text.split("\n\n"), key=len)
        start = document.text.index(paragraph)
        spans = split_sentences(paragraph)
        counts = count_tokens([paragraph[a:b] for a, b in spans])
        end = next((b for i, (_, b) in enumerate(spans) if sum(counts[: i + 1]) >= CHUNK_TOKENS - 15), None)
        if end is not None and "\n" not in paragraph[:end] and sum(counts[: len(spans)]) < 3 * CHUNK_TOKENS:
            span = Span(document.id, start, start + end)
            passages.append(Passage(paragraph[:end], 1 - len(passages) / count, (span,), title=document.title))
        if len(passages) == count:
            return passages
    raise SystemExit(f"not enough chunks: {name} has {len(passages)}")


class Half:
    """A scripted model that keeps half of the sentences of each pair. The same pair always gets the same half."""

    def __init__(self, passages: Sequence[Passage], pause: float) -> None:
        texts = [p.text for p in passages]
        self._sentences = [" ".join(text[a:b].split()) for text in texts for a, b in split_sentences(text)]
        self._pause = pause

    def __call__(self, messages: Sequence[Message]) -> Turn:
        asked = messages[1].text
        shown = sorted((at, s) for s in self._sentences if (at := asked.find(s)) >= 0)
        kept = [s for _, s in shown][::2]
        if "JSON" not in messages[0].text:
            return Turn(" ".join(kept) or "NONE", pause_per_token=self._pause)
        lines = {
            re.sub(r"^\d+\. (\(.*?\) )?", "", line): line for line in asked.splitlines() if re.match(r"\d+\. ", line)
        }
        numbers = [lines[s].split(".")[0] for s in kept if s in lines]
        return Turn(f'{{"keep":"{" ".join(numbers)}"}}', pause_per_token=self._pause)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="squad")
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--left", type=int, default=2, help="Size of the final context, in chunks")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--pairs", choices=["symmetric", "asymmetric"], default="asymmetric")
    options = parser.parse_args()
    passages = chunks(options.set, options.chunks)
    sizes = count_tokens([p.text for p in passages])
    given = Context("What is it about?", "given", sum(sizes), "", sum(sizes), tuple(passages))
    budget = options.left * sum(sizes) // len(sizes) + 60
    print(f"{len(passages)} chunks of {sum(sizes) // len(sizes)} tokens to {budget}, B = {options.at_once}, ", end="")
    print(f"{1000 * options.pause:.0f} ms an output token, {options.pairs}")
    print(f"{'fusion':8} {'schedule':13} {'calls':>5} {'output tokens':>14} {'a call':>7} {'seconds':>8} {'kept':>5}")
    seconds: dict[tuple[str, str], float] = {}
    spent: dict[str, int] = {}
    for fusion in ("copy", "point"):
        for schedule in ("sequential", "hierarchical"):
            with ChatServer(Half(passages, options.pause)) as server:
                chat = OpenAIChat("scripted", base_url=server.base_url, api_key="none")
                name = "mergerag-asym" if options.pairs == "asymmetric" else "mergerag-sym"
                spec = f"{name}(fusion={fusion}, schedule={schedule}, at_once={options.at_once}, guard=false)"
                started = perf_counter()
                context = merge_context(spec, given, budget, Models(count_tokens, chat=chat))
                seconds[fusion, schedule] = perf_counter() - started
                concurrency.run(chat.aclose())
            used = context.usage
            spent[fusion] = used.output_tokens
            how = {step.note.how for step in context.trace if isinstance(step.note, MergeNote)}
            assert how <= {fusion, "empty"}, [step.reason for step in context.trace]
            print(
                f"{fusion:8} {schedule:13} {used.calls:5} {used.output_tokens:14,} {used.output_tokens / used.calls:7.1f} "
                f"{seconds[fusion, schedule]:8.2f} {context.tokens:5}",
                flush=True,
            )
    best = "hierarchical"
    print(f"point against copy: {spent['point'] / spent['copy']:.3f} of the output tokens, ", end="")
    print(f"{seconds['point', best] / seconds['copy', best]:.3f} of the time")
    for fusion in ("copy", "point"):
        ratio = seconds[fusion, "sequential"] / seconds[fusion, best]
        print(f"hierarchical against sequential, {fusion}: {ratio:.1f} times faster")


if __name__ == "__main__":
    main()
