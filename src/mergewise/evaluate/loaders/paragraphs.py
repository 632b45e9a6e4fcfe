"""Forms whose rows contain their own paragraphs: HotpotQA, 2WikiMultihopQA, MuSiQue, LongBench, FlashRAG and DPR.

The paragraphs of all rows of a file are one pool of documents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from mergewise.evaluate.loaders.rows import BadRow, Pool, SetReader, piece_at, sentence_at, texts
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet
from mergewise.types import Json, Part

_PASSAGE = re.compile(r"^(?:Passage |段落|文章)\d+[:：]?[ \t]*\n", re.MULTILINE)

# -- HotpotQA and 2WikiMultihopQA


def hotpotqa_question(row: Json, pool: Pool, place: str = "") -> Question:
    """Return a question of HotpotQA (Yang et al. 2018) or 2WikiMultihopQA (Ho et al. 2020), and add its paragraphs to the pool.

    The evidence is the sentences that `supporting_facts` names. In some copies `context` and `supporting_facts` are columns
    (`{"title": [...], "sentences": [...]}`).
    """
    paragraphs = {title: (pool.add(title, text), bounds) for title, text, bounds in paragraphs_of(row)}
    facts = supporting_facts(row)
    documents = tuple(dict.fromkeys(paragraphs[title][0] for title, _ in facts if title in paragraphs))
    return Question(
        str(row.get("_id") or row["id"]),
        row["question"],
        texts(row.get("answer")),
        _sentences_of(facts, paragraphs, pool),
        kind=str(row.get("type") or ""),
        hops=len(documents) or None,
        gold_docs=documents,
    )


def paragraphs_of(row: Json) -> list[tuple[str, str, list[Part]]]:
    """Return the title and text of each paragraph, and the bounds of its sentences."""
    context = row["context"]
    pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, dict) else context
    return [(title.strip(), *_join(sentences)) for title, sentences in pairs]


def supporting_facts(row: Json) -> list[tuple[str, int]]:
    """Return the titles and the numbers of the supporting sentences."""
    facts = row.get("supporting_facts") or ()
    pairs = zip(facts["title"], facts["sent_id"], strict=True) if isinstance(facts, dict) else facts
    return [(title.strip(), int(number)) for title, number in pairs]


def _join(sentences: Sequence[str]) -> tuple[str, list[Part]]:
    """Join sentences as they are if they contain their blanks (HotpotQA), else with a blank (2Wiki)."""
    between = "" if any(one[:1].isspace() for one in sentences[1:]) else " "
    text = ""
    bounds: list[Part] = []
    for sentence in sentences:
        start = len(text) + len(between) * bool(bounds)
        text += between * bool(bounds) + sentence
        bounds.append((start, len(text)))
    # the pool strips its documents
    lead = len(text) - len(text.lstrip())
    return text.strip(), [(max(0, start - lead), max(0, end - lead)) for start, end in bounds]


def _sentences_of(
    facts: Sequence[tuple[str, int]], paragraphs: dict[str, tuple[str, list[Part]]], pool: Pool
) -> Evidence | None:
    """Return the sentences of the facts, or None if a fact names a missing paragraph or sentence, as in some copies."""
    pieces = []
    for title, number in facts:
        if title not in paragraphs or not 0 <= number < len(paragraphs[title][1]):
            return None
        document, bounds = paragraphs[title]
        pieces.append(piece_at(pool.document(document), *bounds[number]))
    return tuple(piece for piece in pieces if piece[1]) or None


# -- MuSiQue


def load_musique(path: Path, reader: SetReader) -> QuestionSet:
    """Load MuSiQue (Trivedi et al. 2022).

    MuSiQue-Full has each question twice, once unanswerable: without a paragraph that it needs. In such a file the scope of each
    question is its own paragraphs, because the paragraphs of its twin would answer it. Both twins are in one cluster.
    """
    pool, records = Pool(), list(reader.records(path))
    is_full = any(row.get("answerable") is False for _, row in records)
    return reader.question_set(path, pool.documents, records, lambda row: _musique_question(row, pool, is_full))


def _musique_question(row: Json, pool: Pool, is_full: bool) -> Question:
    """Return a question with its supporting paragraphs as gold documents."""
    paragraphs = {one.get("idx", place): one for place, one in enumerate(row["paragraphs"])}
    ids = {
        place: pool.add(one["title"], one.get("paragraph_text") or one.get("text") or "")
        for place, one in paragraphs.items()
    }
    own, kind = str(row["id"]), str(row["id"]).split("__")[0]
    question = Question(
        own,
        row["question"],
        (),
        None,
        kind=kind,
        hops=int(kind[0]) if kind[:1].isdecimal() else None,
        scope=tuple(dict.fromkeys(ids.values())) if is_full else (),
        cluster=own,
    )
    if row.get("answerable") is False:
        return replace(question, id=f"{own}#unanswerable")
    answers = texts([row["answer"], *(row.get("answer_aliases") or ())])
    if not answers:
        raise BadRow("missing answer")
    gold = tuple(dict.fromkeys(ids[place] for place, one in paragraphs.items() if one.get("is_supporting")))
    return replace(question, answers=answers, evidence=_sentences_of_hops(row, ids, pool), gold_docs=gold)


def _sentences_of_hops(row: Json, ids: dict[int, str], pool: Pool) -> Evidence | None:
    """Return the sentence with the answer of each hop, or None if a paragraph lacks the answer of its hop."""
    pieces = {}
    for hop in row.get("question_decomposition") or ():
        document = pool.document(ids[hop["paragraph_support_idx"]])
        at = document.text.find(hop["answer"])
        if at < 0:
            return None
        span, text = sentence_at(document, at, at + len(hop["answer"]))
        pieces[span] = text
    return tuple(pieces.items()) or None


# -- LongBench


def longbench_question(row: Json, pool: Pool, place: str) -> Question:
    """Return a question of LongBench (Bai et al. 2024). Its scope is its own context.

    Rows with the same context are one cluster. LongBench does not mark gold passages.
    """
    context = row["context"]
    scope = tuple(dict.fromkeys(pool.add(title, text) for title, text in _passages_of(context)))
    cluster = blake2b(context.encode("utf-8", "replace"), digest_size=6).hexdigest()
    name, kind = str(row.get("_id") or place), row.get("dataset") or ""
    return Question(name, row["input"], texts(row["answers"]), None, kind=kind, scope=scope, cluster=cluster)


def _passages_of(context: str) -> list[tuple[str, str]]:
    """Split a context of numbered passages ("Passage 1:") into titles and texts. Any other context is one passage."""
    bounds = [(match.start(), match.end()) for match in _PASSAGE.finditer(context)]
    if not bounds or context[: bounds[0][0]].strip():
        return [("", context)]
    ends = [start for start, _ in bounds[1:]] + [len(context)]
    pieces = [context[start:end].strip().partition("\n") for (_, start), end in zip(bounds, ends, strict=True)]
    return [(title, text or title) for title, _, text in pieces if title]


# -- FlashRAG and DPR


def flashrag_question(row: Json, pool: Pool, place: str) -> Question:
    """Return a question of FlashRAG (Jin et al. 2024).

    Paragraphs of HotpotQA or 2Wiki in the metadata go to the pool. Without them the question needs an existing index.
    """
    own, answers = str(row.get("id") or place), texts(row["golden_answers"])
    known = row.get("metadata") or {}
    if "context" in known and "supporting_facts" in known:
        return replace(hotpotqa_question({**known, "id": own, "question": row["question"]}, pool), answers=answers)
    return Question(own, row["question"], answers, None, kind=str(known.get("type") or ""))


def dpr_question(row: Json, pool: Pool, place: str) -> Question:
    """Return a question of Natural Questions, TriviaQA or WebQuestions with passages of DPR (Karpukhin et al. 2020).

    `positive_ctxs` are gold. `ctxs` are a retriever's results, with a flag whether they contain the answer. This does not make
    them relevant, so they are not gold.
    """

    def add(name: str) -> list[str]:
        return [pool.add(one.get("title") or "", one["text"]) for one in row.get(name) or ()]

    gold = tuple(dict.fromkeys(add("positive_ctxs")))
    for name in ("ctxs", "negative_ctxs", "hard_negative_ctxs"):
        add(name)
    own = str(row.get("id") or row.get("q_id") or place)
    return Question(own, row["question"], texts(row.get("answers") or row.get("answer")), None, gold_docs=gold)
