"""Triplets against the facts behind 2Wiki's questions: recall and precision of an extractor, passage by passage.

python -m benchmarks.triplets rules                       evaluate the rule-based extractor
python -m benchmarks.triplets index --index DIR           evaluate the triplets in an index of the set's corpus
python -m benchmarks.triplets show [--wrong] [--count N]  print missed facts, or wrong answers to a fact's question
python -m benchmarks.triplets sample [--count N]          print random triplets with their sentences, for judging by hand

Our copy of the set has no gold triplets: 2Wiki's `evidences` are not part of its rows. But its questions were made from gold
triplets by templates, so the facts can be recovered: "When was the director of film X born?" with the answer A and evidence in
the documents X and P gives (X, director, P) and (P, date of birth, A). Comparisons between films give only the directors.
Other comparisons give nothing, since the question does not contain the two compared values. A fact counts if its tail appears
in the document of its head, since an extractor cannot find others. Some facts are wrong, because the set was made from a
knowledge base and not from the texts.

A triplet of the head's document can match a fact in three ways, from loose to strict:
  loose    the triplet has the tail of the fact in its tail, or, for an inverse relation ("father of"), in its head
  match    and its relation expresses this fact (`RELATIONS`), and its head refers to the document
  strict   and head and tail equal those of the fact, word by word (ignoring articles, case, punctuation and the order of dates)
Recall is over facts. Precision is over the triplets that answer the fact's question: triplets of the head's document that match
its head and relation, with any tail. A fact names one director even if a film has two, so the precision is a lower bound.
The rules were developed on the questions of the first half, and the second half is reported. (It was not held out perfectly: its
totals were seen while rules were still edited, and one rule was changed after a look at a sample of it.
The figures did not move.)
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import mergewise
from benchmarks.corpus import bench_folder
from mergewise import Document
from mergewise.designs import VIEWS
from mergewise.designs.aed.triplets import Triplet, TripletReader, TripletSettings
from mergewise.index import pipeline
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader

Found: TypeAlias = Mapping[str, Sequence[Triplet]]
"""Triplets by document."""

LEVELS = ("loose", "match", "strict")

# Patterns of whole relations, in lower case, that express these facts. A pattern with `~` swaps head and tail.
RELATIONS: Mapping[str, tuple[str, ...]] = {
    "director": (r"(co-|re-)?directed by", r"(film )?directors?( is| was)?", r"film by", "~directed", "~director of"),
    "performer": (
        r"(performed|sung|recorded|released|covered) by",
        r"(song|single|track|ballad|hit|entry) (by|of)",
        r"performers?|singers?|artists?",
        r"is a (song|single) by",
        "~(performed|sang|recorded|released)",
    ),
    "composer": (
        r"(.* )?(composed|scored) by",
        r"(music|score|soundtrack|songs?|.*music)( \w+)? by",
        r"composers?|music",
        "~(composed|scored).*",
    ),
    "songwriter": (
        r"(co-)?(composed|written) by",
        r"song by",
        r"composers?|writers?|songwriters?",
        "~(composed|wrote)",
    ),
    "founder": (
        r"(founded|established|started|created|set up) by",
        r"founders?",
        "~(co-?)?(founded|established|started)",
        "~founder of",
    ),
    "date of birth": (r"(was )?born( on| in)?", r"date of birth|birth ?date|birth"),
    "date of death": (r"died( on| in)?", r"date of death|death ?date|death"),
    "place of birth": (r"(was )?born (in|at|on .*in)", r"place of birth|birth ?place", r".* from"),
    "place of death": (r"died (in|at)", r"place of death|death ?place"),
    "nationality": (r"nationality|citizenship|country( of (origin|citizenship))?", r"(is|was) (a|an)?", r"from"),
    "cause of death": (r"died (of|from|by|after).*", r"cause of death"),
    "award": (r"(won|received|awarded|inducted).*", r"awards?"),
    "education": (
        r"(graduated|educated|studied|attended|received|earned|holds?).*",
        r"education|alma mater|studied at",
    ),
    "employer": (r"(worked|works|taught|employed|served|professor|joined).*", r"employer"),
    "place of burial": (r"(buried|interred).*", r"place of burial"),
    "father": (r"father( is| was)?", r"(son|daughter|child|born) (of|to)", "~father of", "~(sired|fathered)"),
    "mother": (r"mother( is| was)?", r"(son|daughter|child|born) (of|to)", "~mother of"),
    "child": (
        r"(child|children|son|daughter)( is| was)?",
        r"(father|mother|parent) of",
        "~(son|daughter|child) of",
        r"had.*",
    ),
    "spouse": (
        r"(wife|husband|spouse|widow|consort|queen|empress)( is| was| of)?",
        r"(was )?married( to)?",
        r"(wife|husband|consort|widow) of",
        "~(wife|husband|consort|widow|married).*",
    ),
    "sibling": (
        r"(brother|sister|sibling|half-brother|half-sister)s?( is| was| of)?",
        r"(brother|sister) of",
        "~(brother|sister) of",
    ),
    "publisher": (r"(published|issued) by", r"publisher"),
    "occupation": (r"(is|was) (a|an)?", r"occupation|works as|worked as"),
}

_FIRST = {
    "director": r"\bdirectors? of (?:the )?films?\b",
    "performer": r"\bperformer of (?:the )?song\b",
    "composer": r"\bcomposer of (?:the )?film\b",
    "songwriter": r"\bcomposer of (?:the )?song\b",
    "founder": r"\bfounder of\b",
    "father": r"'s father\b|\bfather of\b",
    "mother": r"'s mother\b|\bmother of\b",
    "spouse": r"'s (?:husband|wife|spouse)\b|\b(?:husband|wife|spouse) of\b",
    "sibling": r"'s sibling\b",
    "publisher": r"\bpublisher of\b",
    "child": r"'s child\b",
}
_SECOND = {
    "date of birth": r"\bdate of birth\b|^when\b.*\b(?:born|birthday)\b",
    "date of death": r"\bdate of death\b|^when did\b.*\bdie\b",
    "place of birth": r"\bplace of birth\b|^where\b.*\bborn\b",
    "place of death": r"\bplace of death\b|^where did\b.*\bdie\b",
    "nationality": r"\bnationality\b|\bcountry\b",
    "cause of death": r"\bcause of death\b|^(?:why|how) did\b.*\bdie\b",
    "award": r"\baward\b",
    "education": r"\bstudy\b|\bstudied\b|\bgraduate",
    "employer": r"\bwork(?:s|ed)? at\b|\bemployer\b",
    "place of burial": r"\bburied\b|\bburial\b",
    "mother": r"^who is the mother\b",
    "father": r"^who is the father\b",
    "child": r"^who is the child\b",
    "spouse": r"^who is the (?:spouse|wife|husband)\b",
    "sibling": r"^who is the sibling\b",
    "occupation": r"\boccupation\b",
}
_CHAINS = {
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("father", "mother"),
    "maternal grandfather": ("mother", "father"),
    "maternal grandmother": ("mother", "mother"),
    "father-in-law": ("spouse", "father"),
    "mother-in-law": ("spouse", "mother"),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact behind a question, which its head's document should state."""

    doc: str
    head: str
    relation: str
    tail: str
    half: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of facts, facts found, right answers and all answers."""

    facts: int = 0
    found: int = 0
    right: int = 0
    answering: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(self.row, other.row, strict=True)))

    @property
    def row(self) -> tuple[int, int, int, int]:
        return self.facts, self.found, self.right, self.answering


# -- the facts


def rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(bench_folder() / "2wiki" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def facts(corpus: Mapping[str, Document], reachable: bool = True) -> list[Fact]:
    """Return the distinct facts behind the questions. If `reachable`, only facts whose tail appears in the head's document."""
    asked = list(rows("questions"))
    listed: dict[tuple[str, str, str], Fact] = {}
    for number, row in enumerate(asked):
        for doc, relation, tail in _behind(row, corpus):
            half = 1 if number < len(asked) // 2 else 2
            listed.setdefault((doc, relation, tail), Fact(doc, title_of(corpus[doc]), relation, tail, half))
    first = {(fact.doc, fact.relation) for fact in listed.values() if fact.half == 1}
    kept = [fact for fact in listed.values() if fact.half == 1 or (fact.doc, fact.relation) not in first]
    return [fact for fact in kept if not reachable or _holds(corpus[fact.doc].text, fact.tail)]


def _behind(row: Mapping[str, Any], corpus: Mapping[str, Document]) -> Iterator[tuple[str, str, str]]:
    question, kind = row["question"].lower().strip(), row["type"]
    docs = list(dict.fromkeys(piece["doc"] for piece in row["evidence"]))
    answer = row["answers"][0]
    if kind == "bridge_comparison" and len(docs) == 4 and "director" in question:
        for film, person in ((docs[0], docs[2]), (docs[1], docs[3])):
            yield film, "director", title_of(corpus[person])
    elif kind == "inference" and len(docs) == 2:
        for said, (first, second) in _CHAINS.items():
            if said in question:
                yield docs[0], first, title_of(corpus[docs[1]])
                yield docs[1], second, answer
    elif kind == "compositional" and len(docs) == 2:
        first = _matching(_FIRST, question)
        second = _matching(_SECOND, question)
        if first:
            yield docs[0], first, title_of(corpus[docs[1]])
        if second:
            yield docs[1], second, answer


def _matching(patterns: Mapping[str, str], question: str) -> str:
    return next((relation for relation, pattern in patterns.items() if re.search(pattern, question)), "")


def title_of(document: Document) -> str:
    return re.sub(r"\s*\([^()]*\)\s*\Z", "", document.title)


# -- matching

_MONTHS = {
    month[:3]: number
    for number, month in enumerate(
        "january february march april may june july august september october november december".split(), 1
    )
}
_ARTICLES = frozenset("a an the".split())


def folded(text: str) -> tuple[str, ...]:
    """Return the words without case, accents, articles and punctuation. Dates become day, month, year."""
    plain = unicodedata.normalize("NFKD", text)
    said = re.findall(r"[^\W_]+", "".join(c for c in plain if not unicodedata.combining(c)).casefold())
    said = [word for word in said if word not in _ARTICLES]
    months = [word for word in said if word[:3] in _MONTHS and (len(word) == 3 or word.isalpha()) and _is_month(word)]
    if months and len(said) <= 4 and any(word.isdigit() for word in said):
        return tuple(sorted(str(_MONTHS[word[:3]]) + "m" if word in months else word for word in said))
    return tuple(said)


def _is_month(word: str) -> bool:
    return any(full.startswith(word) for full in _FULL_MONTHS)


_FULL_MONTHS = "january february march april may june july august september october november december".split()


def _in(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Check that words appear side by side in other words."""
    return bool(part) and any(tuple(whole[i : i + len(part)]) == tuple(part) for i in range(len(whole) - len(part) + 1))


def _holds(text: str, tail: str) -> bool:
    """Check that a text contains the tail. A date may have any order."""
    if _in(folded(tail), folded(text)):
        return True
    date = folded(tail)
    if not any(word.endswith("m") and word[:-1].isdigit() for word in date):
        return False
    return any(folded(found) == date for found in re.findall(r"\w+\s+\w+,?\s+\d{3,4}|\w+\s+\d{4}", text))


def says(relation: str, said: str) -> tuple[bool, bool]:
    """Return two flags: the relation expresses a fact of this kind, and it does so with head and tail swapped."""
    said = " ".join(said.lower().split())
    straight = any(re.fullmatch(pattern, said) for pattern in RELATIONS[relation] if pattern[0] != "~")
    turned = any(re.fullmatch(pattern[1:], said) for pattern in RELATIONS[relation] if pattern[0] == "~")
    return straight, turned


def answering(fact: Fact, triplets: Sequence[Triplet]) -> list[tuple[Triplet, str]]:
    """Return the triplets that answer the fact's question, each with its answer."""
    head = set(folded(fact.head))
    listed = []
    for triplet in triplets:
        for matches, about, answer in zip(
            says(fact.relation, triplet.relation),
            (triplet.head, triplet.tail),
            (triplet.tail, triplet.head),
            strict=True,
        ):
            said = set(folded(about))
            if matches and said & head and 2 * len(said & head) >= min(len(said), len(head)) and _of_kind(fact, answer):
                listed.append((triplet, answer))
    return listed


def _of_kind(fact: Fact, answer: str) -> bool:
    """Check the kind of answer to a fact about a date or a place: "born in" comes before both."""
    is_date = re.search(r"\d{3,4}", answer) is not None and len(folded(answer)) <= 4
    return is_date == fact.relation.startswith("date") or not fact.relation.startswith(("date", "place"))


def is_right(fact: Fact, answer: str, strict: bool) -> bool:
    gold, said = folded(fact.tail), folded(answer)
    if strict or not said:
        return gold == said
    return gold == said or _in(gold, said) or (_in(said, gold) and len(said) > 1)


def judged(fact: Fact, triplets: Sequence[Triplet]) -> dict[str, Counts]:
    listed = answering(fact, triplets)
    exact = [(t, answer) for t, answer in listed if folded(t.head) == folded(fact.head) or t.tail != answer]
    loose = any(is_right(fact, part, False) for triplet in triplets for part in (triplet.tail, triplet.head))
    answers = {folded(answer) for _, answer in listed}
    right = {said for said in answers if any(is_right(fact, a, False) for _, a in listed if folded(a) == said)}
    strict = {folded(answer) for _, answer in exact if is_right(fact, answer, True)}
    return {
        "loose": Counts(1, int(loose), 0, 0),
        "match": Counts(1, int(bool(right)), len(right), len(answers)),
        "strict": Counts(1, int(bool(strict)), len(strict), len(answers)),
    }


# -- extractors


def corpus() -> dict[str, Document]:
    return {row["id"]: Document(row["id"], row["text"], row["title"]) for row in rows("corpus")}


def by_rules(documents: Sequence[Document]) -> Found:
    views = {"leaf": VIEWS["leaf"].dump(), "triplet": VIEWS["triplet"].dump(TripletSettings())}
    built = pipeline.rows_of([(document, "") for document in documents], VIEWS, views, Models(count_tokens))
    return {rows.document.id: [t for row in rows["triplet"] for t in row.triplets] for rows in built}


def of_index(directory: str) -> Found:
    index = mergewise.open(directory, create=False)
    reader = HybridReader(index.store.reader(), None, VIEWS)
    view: TripletReader = reader.view("triplet")
    found: dict[str, list[Triplet]] = defaultdict(list)
    for row in view.all():
        found[row.doc_id] += row.triplets
    return found


# -- reports


def report(known: Sequence[Fact], found: Found, half: int) -> str:
    """Return a table of the facts of one half, with a line per relation and a line for all."""
    own = [fact for fact in known if fact.half == half and fact.doc in found]
    table: dict[str, dict[str, Counts]] = defaultdict(lambda: dict.fromkeys(LEVELS, Counts()))
    for fact in own:
        for level, counts in judged(fact, found[fact.doc]).items():
            table[fact.relation][level] += counts
            table["all"][level] += counts
    lines = [
        "| relation | facts | recall loose | recall | recall strict | precision | precision strict |",
        "| --- |" + " --- |" * 6,
    ]
    order = [name for name, _ in Counter(fact.relation for fact in own).most_common()]
    for name in ["all", *order]:
        loose, match, strict = (table[name][level] for level in LEVELS)
        shares = [
            _share(loose.found, loose.facts),
            _share(match.found, match.facts),
            _share(strict.found, strict.facts),
        ]
        shares += [_share(match.right, match.answering), _share(strict.right, strict.answering)]
        lines.append(f"| {name} | {match.facts} | {' | '.join(shares)} |")
    return "\n".join(lines)


def _share(some: int, every: int) -> str:
    return f"{some / every:.2f}" if every else "-"


def print_counts(documents: Mapping[str, Document], found: Found) -> None:
    total = sum(map(len, found.values()))
    empty = sum(not found[doc] for doc in found)
    print(
        f"{total} triplets in {len(found)} documents, {total / max(1, len(found)):.1f} per document, {empty} without triplets"
    )


def show(
    known: Sequence[Fact], found: Found, documents: Mapping[str, Document], wrong: bool, half: int, count: int
) -> None:
    for fact in [fact for fact in known if fact.half == half]:
        triplets = found.get(fact.doc, ())
        match = judged(fact, triplets)["match"]
        if match.found and not (wrong and match.right < match.answering):
            continue
        if wrong and match.right == match.answering:
            continue
        print(f"({fact.head} | {fact.relation} | {fact.tail})")
        near = [t for t in triplets if wrong and any(t == one for one, _ in answering(fact, triplets))]
        at = documents[fact.doc].text.find(fact.tail)
        print(f"    {' '.join(documents[fact.doc].text[max(0, at - 150) : max(0, at) + 90].split())!r}")
        for triplet in near:
            print(f"    {triplet.text}")
        count -= 1
        if not count:
            return


def sample(found: Found, documents: Mapping[str, Document], known: Sequence[Fact], count: int, seed: int) -> None:
    """Print random triplets of documents in the second half's evidence."""
    docs = sorted({fact.doc for fact in known if fact.half == 2})
    drawn = random.Random(seed).sample([(doc, t) for doc in docs for t in found.get(doc, ())], count)
    for number, (doc, triplet) in enumerate(drawn, 1):
        print(f"{number}. [{documents[doc].title}] {triplet.text}")
        print(f"    {' '.join(documents[doc].text[triplet.start : triplet.end].split())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rules", "index", "show", "sample"))
    parser.add_argument("--index", default="")
    parser.add_argument("--half", type=int, choices=(1, 2), default=2)
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    documents = corpus()
    known = facts(documents)
    needed = {fact.doc for fact in known}
    found = of_index(given.index) if given.index else by_rules([documents[doc] for doc in sorted(needed)])
    if given.what == "show":
        show(known, found, documents, given.wrong, given.half, given.count)
    elif given.what == "sample":
        sample(found, documents, known, given.count, given.seed)
    else:
        every = len(facts(documents, reachable=False))
        print(f"{every} facts behind the questions, {len(known)} with their tail in the document of the head")
        print_counts(documents, {doc: found.get(doc, ()) for doc in needed})
        print(report(known, found, given.half))


if __name__ == "__main__":
    main()
