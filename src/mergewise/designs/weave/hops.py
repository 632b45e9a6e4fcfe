"""Bridge hops: from the names in the best evidence to the sections that define them.

Links lead only to sections that define a name. Sections that describe a thing without defining its name ("a hotel in Windhoek")
are found by a second search: `open_question` returns its query, the rest of the question with the names in the evidence.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, zip_longest

from mergewise.assemble.fragments import SectionKey
from mergewise.assemble.sentences import section_of
from mergewise.designs.weave.evidence import COMMON, PREFIX, Candidates, Link, QuestionAspects, SentencePool, by_score
from mergewise.protocols import FloatArray, IndexReader
from mergewise.text.names import (
    LONGEST_TITLE,
    NAME_WORD,
    Mention,
    Words,
    mentions,
    names_of_title,
    possible_names,
    with_series,
    words_of,
)
from mergewise.tracing import span
from mergewise.types import Definition

LEAVES = 6  # read per definition
DEFINITIONS = 16  # read per hop
LACKING = 0.1  # minimum share of the question that evidence is taken to lack
WORTH = 0.015  # minimum expected gain of a link
PRICE = 0.01  # minimum expected gain for each leaf that a hop reads
ONWARD = 0.04  # minimum expected gain of the second search
NEARBY = 4  # distance in words within which a name is near a word of the question
NEAR = 3  # factor on the gain of a name that is near one
# Share of the known leaves that mention a name, from which it leads nowhere: a marked name, and a word like any other.
MENTIONED, UNMARKED = 0.2, 0.04
EVEN = 0.8  # minimum strength of the best sentence of a named section, as a share of the best of all
LEADING = 3  # the most relevant candidates, whose names are searched for
ANSWERED_BY = 2  # the first of these, whose terms count as answered
LONGEST_EVIDENCE = 2000  # characters of a sentence that are searched for names and terms
_CELLS = re.compile("[|\t,;]")


def named_definitions(asked: QuestionAspects, reader: IndexReader) -> tuple[list[Mention], dict[str, list[Definition]]]:
    """Return the names in the question, and the definitions of each. A word that looks like any other has only one."""
    possible = possible_names(asked.words, LONGEST_TITLE)
    known = reader.definitions(list(dict.fromkeys(name for name, _, _ in possible)))
    known = {name: definitions for name, definitions in known.items() if len(definitions) <= COMMON}
    return [one for one in mentions(possible, known) if one.is_sure(asked.words) or len(known[one.name]) == 1], known


def named_sections(pool: SentencePool, named: Iterable[tuple[Definition, str]]) -> dict[SectionKey, str]:
    """Map the sections of these definitions, as far as candidates lie in them, to the names that they define."""
    known = pool.leaves
    return {section_of(known[one.first_leaf]): name for one, name in named if one.first_leaf in known}


def strengths(candidates: Candidates) -> FloatArray:
    """Return the strength of each candidate as the start of a chain, which is its relevance.

    Candidates in a section that the question names are raised, so that the section starts a chain even next to a more relevant
    one: comparisons ask for both.
    """
    relevance = candidates.relevance
    raised = relevance.copy()
    top = EVEN * max(float(relevance.max(initial=0.0)), 0.3)
    for section in candidates.signals.named:
        members = candidates.pool.members.get(section, [])
        best = float(relevance[members].max(initial=0.0))
        if 0 < best < top:
            raised[members] *= top / best
    return raised


class Follower:
    """A search for definitions of the names in evidence, hop after hop, with a cache of the look-ups."""

    def __init__(self, pool: SentencePool, reader: IndexReader, asked_names: Sequence[Mention], beam: int) -> None:
        self.pool = pool
        self.reader = reader
        self.beam = beam
        self._skip = {mention.name for mention in asked_names}
        self._relations = pool.asked.relations(asked_names)
        self._words: dict[int, Words] = {}
        self._possible: dict[int, list[tuple[str, int, int]]] = {}
        self._definitions: dict[str, list[Definition]] = {}
        self._mentioned: dict[str, int] = {}  # number of leaves with a name
        self._texts: list[str] = []  # of the known leaves, in lower case

    @span("mergewise.hop")
    def follow(self, candidates: Candidates) -> dict[Definition, list[Link]]:
        """Return the definitions of the names in the `beam` strongest candidates, with the links that lead there.

        Candidates that lack little of the question are left out.
        """
        strength = strengths(candidates)
        # The share of the question's terms that each lacks, at least `LACKING`: a question may want more.
        pool, asked = self.pool, self.pool.asked.terms
        beam = by_score(strength)[: self.beam]
        lacking = {i: max(LACKING, pool.share(asked - pool.covered_terms[i])) for i in beam}
        evidence = [i for i in lacking if strength[i] * lacking[i] * NEAR >= WORTH]
        self._look_up(evidence)
        links: dict[Definition, list[Link]] = defaultdict(list)
        for i in evidence:
            for mention in self._mentions(i):
                # The name leads to its definitions in the same document, else to all of them. It leads nowhere if one of them
                # holds the leaf itself, or if there are too many.
                leaf, definitions = pool.sentences[i].leaf, self._definitions[mention.name]
                targets = [one for one in definitions if one.document == leaf.document] or definitions
                if len(targets) >= COMMON or any(leaf.id in definition.leaves for definition in definitions):
                    continue
                # The name is next to a word of the question. The title of the candidate's own document never is.
                words, first, last = self._words[i].folded, mention.first, mention.last
                around = words[max(0, first - NEARBY) : first] + words[last : last + NEARBY - 1]
                near = any(word[:PREFIX] in self._relations for word in around)
                near = near and mention.name not in names_of_title(leaf.title)
                trusted = float(strength[i])
                section = pool.sentences[i].section
                if near and section in candidates.signals.named:
                    # The sentence holds the asked relation. "Music was composed by Ravi" has little in common with the question
                    # where the film's composer was born, and yet it is the one sentence of the film's section that leads on.
                    trusted = max(trusted, EVEN * float(strength[pool.members[section]].max()))
                own = trusted * self._rarity(i, mention) / math.sqrt(len(targets))
                gain = own * lacking[i] * (NEAR if near else 1)
                for target in targets if gain >= WORTH else ():
                    links[target].append(Link(i, mention.name, own, near, gain))
        return links

    def names(self, evidence: Iterable[int]) -> list[str]:
        """Return the names in this evidence as it writes them, without those in the question."""
        self._look_up(evidence)
        asked = self.pool.asked
        names: dict[str, None] = {}
        for i in evidence:
            words = self._words[i]
            places = [mention[1:] for mention in self._mentions(i) if self._rarity(i, mention)]
            inside = {at for place in places for at in range(*place)}
            for at, (word, marked) in enumerate(zip(words.folded, words.marked, strict=True)):
                known = at in inside or word in asked.words.folded or words.is_joined(max(at - 1, 0), at + 2)
                if marked and not known and asked.telling.within(word):
                    places.append((at, at + 1))
            names |= dict.fromkeys(words.written(*place) for place in sorted(places))
        return list(names)

    def _rarity(self, candidate: int, mention: Mention) -> float:
        """Return 1 for a name that few of the known leaves mention, and less for others, down to 0 for a common one.

        The candidate and the sections that define the name do not count. A word that looks like any other must be rarer, and only
        one section may define it.
        """
        words, defined = self._words[candidate], len(self._definitions[mention.name])
        sure = mention.is_sure(words)
        if not sure and defined > 1:
            return 0.0
        written = words.written(mention.first, mention.last).lower()
        leaves = self.pool.leaves
        if written not in self._mentioned:
            self._texts += [leaf.text.lower() for leaf in islice(leaves.values(), len(self._texts), None)]
            holds = str.__contains__ if words.is_joined(*mention[1:]) else _begins_word
            self._mentioned[written] = sum([holds(text, written) for text in self._texts if written in text])
        share = (self._mentioned[written] - 1 - defined) / len(leaves)
        return min(1.0, max(0.0, 2 - 2 * share / (MENTIONED if sure else UNMARKED)))

    def _look_up(self, evidence: Iterable[int]) -> None:
        """Look up, in one call, the definitions of all names that the evidence may hold."""
        fresh = [i for i in evidence if i not in self._words]
        for i in fresh:
            sentence = self.pool.sentences[i]
            text = self._asked_rows(i) if sentence.sentence.kind == "row" else sentence.text
            text = with_series(text[:LONGEST_EVIDENCE], sentence.leaf.title)
            self._words[i] = words_of(text, self.reader.languages(text))
            self._possible[i] = possible_names(self._words[i])
        names = dict.fromkeys(name for i in fresh for name, _, _ in self._possible[i])
        self._definitions |= self.reader.definitions(list(names)) if names else {}

    def _asked_rows(self, candidate: int) -> str:
        """Return the rows with most of the question's terms, each cell after the name of its column."""
        pool, asked = self.pool, self.pool.asked
        bundle = pool.bundle(candidate, previous=False) or (candidate,)
        lines = (line for i in bundle for line in pool.sentences[i].text.splitlines() if any(map(str.isalnum, line)))
        header, *rows = ([cell.strip() for cell in _CELLS.split(line.strip("| "))] for line in lines)
        held = [len(asked.telling.within(" ".join(row)) & asked.terms) for row in rows]
        best = (row for row, count in zip(rows, held, strict=True) if count == max(held))
        return "\n".join(f"{name} {cell}" for row in best for name, cell in zip_longest(header, row, fillvalue=""))

    def _mentions(self, candidate: int) -> list[Mention]:
        """Return the names in a candidate, without those in the question, and without numbers: a year leads nowhere."""
        found = mentions(self._possible[candidate], self._definitions)
        return [one for one in found if one.name not in self._skip and any(map(str.isalpha, one.name))]


def _begins_word(text: str, name: str) -> bool:
    """Return true if a word of the text, or a run of its words, begins with the name."""
    at = text.find(name)
    while at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_"):
        at = text.find(name, at + 1)
    return at >= 0


def strongest(reached: Mapping[Definition, Sequence[Link]]) -> list[Definition]:
    """Return the definitions to read in a hop: those of the largest expected gain first, if it pays for reading their leaves."""
    gain = {definition: max(link.gain for link in links) for definition, links in reached.items()}
    worth = [definition for definition in reached if gain[definition] >= PRICE * len(definition.leaves[:LEAVES])]
    return sorted(worth, key=lambda definition: (-gain[definition], definition.first_leaf))[:DEFINITIONS]


def by_section(pool: SentencePool, reached: Mapping[Definition, Sequence[Link]]) -> dict[SectionKey, list[Link]]:
    """Group links by the section where their definition begins. Skip definitions without candidates."""
    by_key: dict[SectionKey, list[Link]] = {}
    for definition, links in reached.items():
        leaf = pool.leaves.get(definition.first_leaf)
        if leaf is not None and pool.members[section_of(leaf)]:
            by_key.setdefault(section_of(leaf), []).extend(links)
    return by_key


def leaves_of(definitions: Iterable[Definition], known: Mapping[int, object]) -> list[int]:
    """Return the first leaves of the definitions, without known ones."""
    wanted = (leaf for definition in definitions for leaf in definition.leaves[:LEAVES])
    return [leaf for leaf in dict.fromkeys(wanted) if leaf not in known]


def open_question(candidates: Candidates, follower: Follower) -> tuple[str, float] | None:
    """Return the question without the words that the best evidence holds, with the names in that evidence, and the expected gain.

    Returns None if the gain of a search is small. Evidence whose names lead somewhere promises more. Without vectors, evidence is
    trusted only if the question names a section.
    """
    pool, signals = candidates.pool, candidates.signals
    leading, asked = candidates.best(LEADING), pool.asked
    held = frozenset[str]().union(*(pool.terms[i] for i in leading[:ANSWERED_BY]))
    gain = pool.share(asked.terms - held) * (float(candidates.relevance.max()) + bool(signals.links)) / 2
    if gain < ONWARD or not (signals.named or asked.vector is not None):
        return None
    known = sorted(asked.telling.spellings(held), key=len, reverse=True)
    answered = "|".join(rf"\b{re.escape(word)}\b" if word.isascii() else word for word in known)
    rest = re.sub(answered, " ", asked.text) if known else asked.text
    names = follower.names(leading)
    # lines, since numbers of the evidence are not asked for exactly
    return ("\n".join([*re.findall(NAME_WORD, rest), *names]), gain) if names else None
