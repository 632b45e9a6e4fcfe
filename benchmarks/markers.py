"""Markers written by a real chat model over a real server: output, acceptance, cost, and retrieval results.

python -m benchmarks.markers documents                                    list the documents and questions, with their sizes
python -m benchmarks.markers real --model NAME=URL [--model NAME=URL]     write the markers, then print the report
python -m benchmarks.markers report --model NAME=URL                      print the report on the markers written so far

The documents are short, or stretches of long ones. They come from the question sets' first halves and from the manuals, with the
questions they answer. All are in one index, so each must be found among the others. `real` takes the documents one by one and
resumes after an interruption: replies of a model are cached in --cache, and no call is made twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import mergewise
from benchmarks import manuals
from benchmarks.cells import mean_of_known
from benchmarks.corpus import bench_folder
from mergewise import Document, Span
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.mrag.markers import MarkerExtraction, MarkerSettings
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.run import chosen_questions
from mergewise.models.openai_chat import OpenAIChat
from mergewise.models.tokens import count_tokens
from mergewise.readers import read_file
from mergewise.retrieve.hybrid import HybridReader
from mergewise.text.sections import paragraphs

# Tokens of a document, except for the paragraphs of 2wiki.
LEAST, MOST = 400, 1400
STRETCH = 700  # tokens of a stretch of a long document
BUDGETS = (128, 384, 640)
BASELINES = ("topk", "fixed")
ORDERS = ("position", "similarity")
WINDOW = 8192  # context window of the models in tokens
PATIENCE = 7200.0  # timeout of an answer in seconds, for models on a busy CPU


@dataclass(frozen=True, slots=True)
class Chosen:
    """Documents with the questions they answer."""

    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


# -- documents


def chosen() -> Chosen:
    """Return three documents of each set, and the documents for four questions of 2wiki."""
    parts = [
        _pool("2wiki", 4),
        _whole("hotpotqa-long", 3),
        _stretches("squad", 3),
        _stretches("covidqa", 3),
        _manuals(4),
    ]
    return Chosen(
        tuple(document for part in parts for document in part.documents),
        tuple(question for part in parts for question in part.questions),
    )


def _task(name: str) -> tuple[dict[str, Document], list[Question]]:
    task = load_question_set(bench_folder() / name)
    questions = [replace(question, id=f"{name}/{question.id}") for question in chosen_questions(task, "dev")]
    return {document.id: document for document in task.documents}, questions


def _of(question: Question) -> set[str]:
    return {span.doc_id for span, _ in question.evidence or ()}


def _named(name: str, document: Document) -> Document:
    return replace(document, id=f"{name}/{document.id}")


def _placed(question: Question, name: str, start: int = 0) -> Question:
    """Return the question with its evidence moved to our document, which begins at `start` of the original one."""
    moved = tuple(
        (Span(f"{name}/{span.doc_id}", span.start - start, span.end - start), text)
        for span, text in question.evidence or ()
    )
    return replace(question, evidence=moved)


def _pool(name: str, count: int) -> Chosen:
    """Return the paragraphs needed by the first questions."""
    documents, questions = _task(name)
    asked = [question for question in questions if len(_of(question)) > 1][:count]
    needed = dict.fromkeys(doc_id for question in asked for doc_id in sorted(_of(question)))
    return Chosen(
        tuple(_named(name, documents[doc_id]) for doc_id in needed),
        tuple(_placed(question, name) for question in asked),
    )


def _whole(name: str, count: int) -> Chosen:
    """Return the shortest documents with at least `LEAST` tokens."""
    documents, questions = _task(name)
    of_document = {min(_of(question)): question for question in questions if len(_of(question)) == 1}
    sized = sorted((count_tokens([documents[doc_id].text])[0], doc_id) for doc_id in of_document)
    taken = [doc_id for tokens, doc_id in sized if tokens >= LEAST][:count]
    return Chosen(
        tuple(_named(name, documents[doc_id]) for doc_id in taken),
        tuple(_placed(of_document[doc_id], name) for doc_id in taken),
    )


def _stretches(name: str, count: int) -> Chosen:
    """Return, from the first documents with questions, the whole paragraphs with the evidence of most questions."""
    documents, questions = _task(name)
    found: list[Chosen] = []
    for doc_id, document in documents.items():
        asked = [question for question in questions if _of(question) == {doc_id}]
        if asked and len(found) < count:
            found.append(_stretch(name, document, asked))
    return Chosen(
        tuple(document for one in found for document in one.documents),
        tuple(question for one in found for question in one.questions),
    )


def _stretch(name: str, document: Document, asked: Sequence[Question]) -> Chosen:
    best: tuple[int, int, int, list[Question]] = (0, 0, 0, [])
    blocks = paragraphs(document.text, 0, len(document.text))
    tokens = count_tokens([document.text[a:b] for a, b in blocks])
    for first in range(len(blocks)):
        last, size = first, tokens[first]
        while last + 1 < len(blocks) and size + tokens[last + 1] <= STRETCH:
            last += 1
            size += tokens[last]
        start, end = blocks[first][0], blocks[last][1]
        inside = [q for q in asked if all(start <= span.start and span.end <= end for span, _ in q.evidence or ())]
        if len(inside) > best[0]:
            best = (len(inside), start, end, inside)
    _, start, end, inside = best
    part = Document(f"{name}/{document.id}", document.text[start:end], document.title)
    return Chosen((part,), tuple(_placed(question, name, start) for question in inside[:6]))


def _manuals(count: int) -> Chosen:
    """Return manuals of medium size with questions about them."""
    asked = [one.question for one in manuals.load("questions", "dev") if one.answerable]
    found: list[tuple[int, int, str]] = []
    for doc_id in sorted({min(_of(question)) for question in asked if len(_of(question)) == 1}):
        text = read_file(manuals.FOLDER / doc_id, id=doc_id).document.text
        tokens = count_tokens([text])[0]
        if LEAST <= tokens <= MOST:
            found.append((-sum(_of(question) == {doc_id} for question in asked), tokens, doc_id))
    taken = [doc_id for _, _, doc_id in sorted(found)[:count]]
    return Chosen(
        tuple(_named("manuals", read_file(manuals.FOLDER / doc_id, id=doc_id).document) for doc_id in taken),
        tuple(_placed(question, "manuals") for question in asked if _of(question) <= set(taken)),
    )


# -- markers


def settings(options: argparse.Namespace) -> MarkerSettings:
    return MarkerSettings(made="model", window=options.window, policy=options.policy, examples=options.examples)


def directory(options: argparse.Namespace, model: str) -> Path:
    return Path(options.cache) / f"{model}-{options.policy}-{options.examples}-{options.window}"


def write(name: str, url: str, given: Chosen, options: argparse.Namespace) -> None:
    """Write the markers of one document after another. Record the seconds of each."""
    chat = OpenAIChat(name, base_url=url, api_key="none", window=WINDOW, timeout=PATIENCE, concurrency=1)
    folder = directory(options, name)
    index = mergewise.open(folder, embedder="minilm", settings={"marker": settings(options)}, chat=chat)
    standing = {info.id for info in index.documents()}
    with (folder.parent / f"{folder.name}.seconds.jsonl").open("a", encoding="utf-8") as file:
        for number, document in enumerate(given.documents, 1):
            if document.id in standing:
                continue
            began = perf_counter()
            index.add(document)
            file.write(json.dumps({"id": document.id, "seconds": perf_counter() - began}) + "\n")
            file.flush()
            print(
                f"{name}: {number} of {len(given.documents)}, {document.id}, {perf_counter() - began:.0f} s",
                file=sys.stderr,
            )
    index.close()


def seconds_of(options: argparse.Namespace, model: str) -> dict[str, float]:
    """Return the seconds of each document, over all attempts."""
    folder = directory(options, model)
    total: Counter[str] = Counter()
    path = folder.parent / f"{folder.name}.seconds.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        total[row["id"]] += row["seconds"]
    return dict(total)


# -- reports


def report(options: argparse.Namespace, given: Chosen) -> dict[str, Any]:
    """Return the results of each model, compared with rules and chunks over the documents that all models have finished."""
    built = {name: index for name, _ in options.model if (index := _standing(options, name)) is not None}
    if not built:
        sys.exit("markers not found. Run `real` first")
    done = set.intersection(*({info.id for info in index.documents()} for index in built.values()))
    rules = mergewise.open(Path(options.cache) / "rules", embedder="minilm", views=_views())
    rules.add([document for document in given.documents if document.id in done])
    asked = [question for question in given.questions if _of(question) <= done]
    said: dict[str, Any] = {"documents": len(done), "questions": len(asked), "models": {}}
    for name, index in built.items():
        said["models"][name] = written(index, seconds_of(options, name))
    said["models"]["rules"] = written(rules, {})
    said["found"] = list(_found({**built, "rules": rules}, done, asked))
    return said


def _standing(options: argparse.Namespace, name: str) -> Index | None:
    folder = directory(options, name)
    return mergewise.open(folder, create=False) if (folder / "manifest.json").exists() else None


def _views() -> tuple[str, ...]:
    wanted = [view for name in BASELINES if name in STRATEGIES for view in STRATEGIES[name].views]
    return tuple(dict.fromkeys(["leaf", "marker", *wanted]))


def written(index: Index, seconds: dict[str, float]) -> dict[str, Any]:
    """Return the figures of `info --markers`, coverage by attempt, and the mean cost of a document."""
    view = HybridReader(index.store.reader(), None, VIEWS).view("marker")
    extractions: list[MarkerExtraction] = view.extractions()
    tried = [one for one in extractions if one.coverages]
    most = max((len(one.coverages) for one in tried), default=0)
    return {
        **view.report().as_dict(),
        "coverage_by_attempt": [
            fmean(one.coverages[min(attempt, len(one.coverages) - 1)] for one in tried) for attempt in range(most)
        ],
        "per_document": {
            "calls": fmean(one.calls for one in extractions),
            "input_tokens": fmean(one.input_tokens for one in extractions),
            "output_tokens": fmean(one.output_tokens for one in extractions),
            "seconds": fmean(seconds.values()) if seconds else None,
            "tokens": fmean(count_tokens([index.document(info.id).text for info in index.documents()])),
        },
    }


def _found(indexes: dict[str, Index], done: set[str], asked: Sequence[Question]) -> Iterator[dict[str, Any]]:
    """Yield evidence and answer of each index at each budget. Chunks come from the rule-based index."""
    for name, index in indexes.items():
        where = " or ".join(f"id = '{doc_id.replace(chr(39), 2 * chr(39))}'" for doc_id in sorted(done))
        specs = [f"mrag(order={order})" for order in ORDERS]
        specs += [spec for spec in BASELINES if spec in STRATEGIES] if name == "rules" else []
        for spec in specs:
            for budget in BUDGETS:
                yield {"markers": name, "strategy": spec, "budget": budget, **_score(index, asked, spec, budget, where)}


def _score(index: Index, asked: Sequence[Question], spec: str, budget: int, where: str) -> dict[str, Any]:
    contexts = [index.context(question.text, strategy=spec, budget=budget, where=where) for question in asked]
    scores = [score_context(q, c.text, c.tokens, count_tokens) for q, c in zip(asked, contexts, strict=True)]
    return {
        "answer": fmean(score.answer for score in scores),
        "evidence": mean_of_known([score.evidence for score in scores]),
        "tokens": fmean(context.tokens for context in contexts),
    }


def show(said: dict[str, Any]) -> None:
    print(f"{said['documents']} documents, {said['questions']} questions\n")
    print(
        "| markers by | coverage by attempt | fallback | rejected | unsupported, then left | k tokens | v tokens "
        "| calls, read, written, s a document |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, one in said["models"].items():
        cost = one["per_document"]
        took = "-" if cost["seconds"] is None else f"{cost['seconds']:.0f}"
        attempts = ", ".join(f"{share:.1%}" for share in one["coverage_by_attempt"]) or "-"
        rejects = ", ".join(f"{count} {kind}" for kind, count in one["rejected"].items()) or "-"
        print(
            f"| {name} | {attempts} | {one['fallback_share']:.1%} | {rejects} | {one['unsupported_share']:.1%}, "
            f"{one['unsupported_left']:.1%} | {_lengths(one, 'key')} | {_lengths(one, 'value')} | {cost['calls']:.1f}, "
            f"{cost['input_tokens']:.0f}, {cost['output_tokens']:.0f}, {took} |"
        )
    print(f"\n| markers by | strategy | {' | '.join(f'answer {b} | evidence {b}' for b in BUDGETS)} |")
    print(f"| --- | --- |{' --- |' * 2 * len(BUDGETS)}")
    rows = {(row["markers"], row["strategy"]): {} for row in said["found"]}
    for row in said["found"]:
        rows[row["markers"], row["strategy"]][row["budget"]] = row
    for (name, spec), by_budget in rows.items():
        cells = [f"{by_budget[b]['answer']:.3f} | {by_budget[b]['evidence'] or 0:.3f}" for b in BUDGETS]
        print(f"| {name} | {spec} | {' | '.join(cells)} |")


def _lengths(one: dict[str, Any], part: str) -> str:
    low, middle, high = one[f"{part}_lengths"]["quartiles"]
    return f"{one[f'{part}_tokens']:.0f} ({low:.0f}, {middle:.0f}, {high:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("documents", "real", "report"))
    parser.add_argument(
        "--model", action="append", default=[], type=lambda text: tuple(text.split("=", 1)), metavar="NAME=URL"
    )
    parser.add_argument("--cache", type=Path, default=Path("markers.cache"))
    parser.add_argument("--window", type=int, default=1024, help="Tokens of text per call")
    parser.add_argument("--policy", default="rest", choices=("rest", "again"))
    parser.add_argument("--examples", default="none", choices=("none", "built-in"))
    parser.add_argument("--documents", type=int, help="Number of documents (default: all)")
    parser.add_argument("--json", type=Path, help="File for the report as JSON")
    options = parser.parse_args()
    given = chosen()
    if options.documents:
        given = replace(given, documents=given.documents[: options.documents])
    if options.what == "documents":
        for document in given.documents:
            about = sum(document.id in _of(question) for question in given.questions)
            print(f"{count_tokens([document.text])[0]:6} tokens, {about} questions: {document.id}")
        print(f"{len(given.documents)} documents, {len(given.questions)} questions")
        return
    if options.what == "real":
        for name, url in options.model:
            write(name, url, given, options)
    said = report(options, given)
    if options.json:
        options.json.write_text(json.dumps(said, indent=1), encoding="utf-8")
    show(said)


if __name__ == "__main__":
    main()
