"""Triplets by rules, without a model. They replace the paper's extractor and are recorded as `made="rules"`.

Sentences are parsed clause by clause. The subject of a clause is the name at its beginning. If a clause begins with a pronoun, a
part of the passage's name, or "the film" in a passage about a film, the subject is the passage's name: its last heading, or the
title of the document. Patterns extract statements about the subject: brackets after a name (dates of birth and death, other
names), "is a", a verb or participle with its prepositions, kinship, "key: value", and rows of tables. The grammar is English.
Dates, brackets, "key: value" and tables work in any language, "is a" in a few. Text without a matching pattern is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from mergewise.designs.aed.triplets.patterns import (
    ADVERB,
    ALIAS,
    APPOSED,
    BORN_IN,
    BRACKETS,
    CHINESE,
    CLAUSE,
    COPULA,
    DASH,
    DEFINED,
    ENDS_KIND,
    FOREIGN,
    FRONTED,
    GENERIC,
    JAPANESE,
    KEY,
    KIN_OF,
    KINDS,
    LANGUAGE,
    LEAD,
    LIFE,
    NO_SUBJECT,
    OF_KIND,
    ORIGINS,
    OTHER_LANGUAGES,
    OWN,
    OWN_KIN,
    PART,
    PARTICIPLE,
    PASSIVE,
    PERSONAL,
    PERSONS,
    PREPOSITIONS,
    PRONOUN,
    RELATIVE,
    ROW,
    RUSSIAN,
    SAYS_WHAT,
    TITLE_BRACKETS,
    VERB,
    WITH,
    YEAR,
)
from mergewise.designs.aed.triplets.phrases import BOUNDARY, DATE, NAME, NAMES, PLACE, names_in, objects, phrase, trim
from mergewise.designs.aed.triplets.records import Triplet
from mergewise.text.alignment import words
from mergewise.text.markup import readable
from mergewise.text.spans import one_line
from mergewise.text.terms import STOP_WORDS
from mergewise.types import Leaf

_Parts: TypeAlias = tuple[str, str, str]

LONGEST = 160  # characters of a head or tail
SENTENCE = 1_000  # maximum characters to read of a sentence


def triplets_by_rules(text: str, title: str, leaves: Sequence[Leaf]) -> list[Triplet]:
    """Extract the triplets of one passage by rules.

    Args:
        text: Text of the document.
        title: Title of the document.
        leaves: Leaves of the passage.

    Returns:
        The triplets, in the order of their sentences.
    """
    about = _Topic.of(text, title, leaves)
    found: list[Triplet] = []
    for leaf in leaves:
        for start, end, *_ in leaf.sentences:
            plain = readable(text[start : min(end, start + SENTENCE)])
            for parts in _SentenceReader(plain, about).triplets():
                head, relation, tail = map(trim, parts)
                named, says = words(head), words(tail)
                if not (named and relation and says) or max(len(head), len(tail)) > LONGEST:
                    continue
                if named != says and not set(says) <= STOP_WORDS:
                    found.append(Triplet(head, relation, tail, start, end))
    return found


@dataclass
class _Topic:
    """The topic of a passage: its name, and its kinds ("film", "city"), by which sentences refer to it."""

    name: str
    personal: bool
    kinds: set[str] = field(default_factory=set)
    header: tuple[str, ...] = ()  # of the table whose rows are being read

    @cached_property
    def opening(self) -> re.Pattern[str]:
        """Pattern of a sentence that begins with the passage's name and a verb."""
        name = r"\s*".join(map(re.escape, self.name.split())) or r"(?!)"
        return re.compile(
            rf"[\"“‘']?\s*(?P<lead>(?:The\s+)?{name})[\"”’']?(?P<aside>\s*,[^,]{{1,120}},|,)?"
            rf"(?P<adverb>{ADVERB})\s+(?P<verb>{VERB})\b",
            re.IGNORECASE,
        )

    @classmethod
    def of(cls, text: str, title: str, leaves: Sequence[Leaf]) -> _Topic:
        own = leaves[0].headings[-1] if leaves and leaves[0].headings else title
        passage = text[leaves[0].start : leaves[-1].end] if leaves else ""
        opening = set(words(f"{own} {passage[:300]}")) & GENERIC
        return cls(TITLE_BRACKETS.sub("", own).strip() or own, PERSONAL.search(passage) is not None, opening)

    def matches(self, lead: str) -> bool:
        """Check whether the phrase refers to the topic of the passage."""
        if PRONOUN.fullmatch(lead):
            return True
        if re.search(r"['’]s?(?:\s|\Z)", lead):
            return False
        mine, others = set(words(self.name)) - STOP_WORDS, set(words(lead)) - STOP_WORDS
        if lead.lower().startswith(("the ", "this ")) and others and others <= self.kinds:
            return True
        lowercase = {word for word in re.findall(r"\b[^\W\d_][\w-]*", lead) if word[0].islower()} - STOP_WORDS
        if not lowercase <= mine | self.kinds:
            return False
        return (
            bool(mine and others)
            and 2 * len(mine & others) >= min(len(mine), len(others))
            and any(character.isupper() for character in lead.removeprefix("The "))
        )

    def subject(self, lead: str) -> str:
        return self.name if self.name and self.matches(lead) else lead


class _SentenceReader:
    """Extractor of the triplets of a sentence."""

    def __init__(self, plain: str, about: _Topic) -> None:
        self.raw = plain
        self.flat = one_line(plain)
        self.about = about

    def triplets(self) -> Iterator[_Parts]:
        rows = self.raw.strip().splitlines()
        if all(map(ROW.match, rows)):
            for row in rows:
                yield from self._row(row)
            return
        self.about.header = ()
        keyed = KEY.match(self.raw.strip())
        if keyed and not _is_prose(keyed["key"], keyed["value"]):
            yield self.about.name, one_line(keyed["key"]), one_line(keyed["value"]).rstrip(".")
            return
        yield from self._brackets()
        bare = " ".join(BRACKETS.sub("", self.flat).split()).replace(" ,", ",")
        for pattern, relation in ((OTHER_LANGUAGES, ""), (CHINESE, "是"), (JAPANESE, "は"), (RUSSIAN, "это")):
            if match := pattern.match(bare):
                yield self.about.subject(match["head"].strip()), relation or match["is"], match["rest"]
                return
        subject = self.about.name
        for clause in CLAUSE.split(bare):
            subject = yield from self._clause(clause, subject)

    # -- forms

    def _row(self, row: str) -> Iterator[_Parts]:
        """Yield a triplet per cell of a table row: the first cell, the header of the cell, and the cell."""
        cells = tuple(one_line(cell) for cell in row.strip().strip("|").split("|"))
        if not any(re.search(r"\w", cell) for cell in cells):
            return
        if not self.about.header:
            self.about.header = cells
            return
        for name, cell in list(zip(self.about.header, cells, strict=False))[1:]:
            if cells[0] and name and cell:
                yield cells[0], name, cell

    def _brackets(self) -> Iterator[_Parts]:
        """Read the brackets after the name at the beginning of the sentence."""
        name = ""
        at = 0
        for match in BRACKETS.finditer(self.flat[:600]):
            lead = self.flat[: match.start()].strip()
            if (at and match.start() > at) or match.start() > 120 or re.search(rf"\s{VERB}\s", f"{lead} "):
                return
            at, inside = match.end(), match[1]
            name = name or self.about.subject(lead or self.about.name)
            for alias in ALIAS.finditer(inside):
                yield name, _alias_relation(alias["how"]), alias["name"]
            for foreign in FOREIGN.finditer(inside):
                if not re.search(r"\d", foreign["name"]):
                    yield name, f"{foreign['language']} name", foreign["name"]
            yield from self._life(name, inside)

    def _life(self, name: str, inside: str) -> Iterator[_Parts]:
        parts = DASH.split(inside, maxsplit=1)
        dates = re.findall(DATE, inside)
        if len(parts) == 1 and len(dates) == 2 and re.search(r"\d{4}\s+\S*\s*\d{1,2}", inside):
            at = inside.index(dates[1])  # the dash between the dates was lost
            parts = [inside[:at], inside[at:]]
        born, died = LIFE.search(parts[0]), LIFE.search(parts[1]) if len(parts) > 1 else None
        has_birth = re.search(r"\b(?:born|b\.|geb|né|née|naci|nat[oa])|\*", parts[0]) is not None
        if died is None and born is not None and not has_birth:
            return
        if died is not None and not self.about.personal and not re.search(r"[^\W\d_]{3}", " ".join(dates)):
            yield name, "years", " – ".join(part.strip() for part in parts)
            return
        for relation, life in (("born", born), ("died", died)):
            if life is not None:
                yield name, f"{relation} on" if len(life["date"]) > 5 else f"{relation} in", life["date"]
                if life["place"]:
                    yield name, f"{relation} in", life["place"]
        placed = BORN_IN.search(parts[0])
        if placed and not (born and born["place"]):
            yield name, "born in", placed["place"]

    # -- clauses

    def _clause(self, clause: str, subject: str) -> Generator[_Parts, None, str]:
        """Yield the triplets of a clause. Return its subject, since the next clause may lack one."""
        clause = clause.strip()
        relative = RELATIVE.search(clause)
        main = clause[: relative.start()] if relative else clause
        fronted = FRONTED.match(main)
        body = main[fronted.end() :] if fronted else main
        lead = self.about.opening.match(body) or LEAD.match(body) or DEFINED.match(body)
        if lead is not None and lead["lead"].strip().lower() not in NO_SUBJECT:
            named = lead["lead"].strip()
            pronoun = PRONOUN.fullmatch(named)
            subject = self.about.name or subject if pronoun else self.about.subject(named)
            for alias in ALIAS.finditer(lead["aside"] or ""):
                yield subject, _alias_relation(alias["how"]), alias["name"]
            # "His father was Ian Keith" names the father of the passage's topic.
            own, object_ = OWN.match(lead["lead"]), re.match(NAME, body[lead.end("verb") :])
            if own and object_ and lead["verb"] in ("is", "was", "are", "were") and self.about.name:
                yield self.about.name, lead["lead"][own.end() :], object_[0]
            statements = self._predicate(subject, lead["verb"], body[lead.end() :].strip())
            part = PART.fullmatch(lead["lead"]) if self.about.name and subject == lead["lead"].strip() else None
            if part is None:
                yield from statements
            else:
                # A statement about "the music" or "its population" is about the passage's topic, so that it is clear by itself.
                noun = (part["noun"] or part["bare"]).lower()
                for _, relation, tail in statements:
                    is_kind = relation in ("is", "was", "are", "were")
                    yield self.about.name, noun if is_kind else f"{noun} {relation}", tail
        elif (verb := re.match(rf"(?:and\s+|also\s+)*(?P<verb>{VERB})\s+", body)) is not None:
            yield from self._predicate(subject, verb["verb"], body[verb.end() :])
        if fronted and fronted[0][0].isupper() and (born := PASSIVE.match(fronted[0].lower()[:1] + fronted[0][1:])):
            yield from self._passive(subject, born, fronted[0])
        yield from self._kin(subject, main)
        # A name and its apposition, as in "Ian Keith, an English actor".
        for match in APPOSED.finditer(main):
            if not re.search(rf"\b{VERB}\b", match["kind"]):
                yield self.about.subject(match["name"]), "is a", match["kind"]
        if relative:
            yield from self._relative(clause, relative, subject)
        return subject

    def _predicate(self, subject: str, verb: str, rest: str) -> Iterator[_Parts]:
        if verb in ("is", "was", "are", "were"):
            passive = PASSIVE.match(rest) or re.match(rf"{PARTICIPLE}\b", rest)
            if passive is None:
                yield from self._kind(subject, verb, rest)
        elif verb in ("has", "had", "have") and (
            perfect := re.match(rf"(?:\w+\s+)?(?P<verb>{PARTICIPLE}|been)\s+", rest)
        ):
            if perfect["verb"] != "been":
                yield from self._verb(subject, perfect["verb"], rest[perfect.end() :])
        elif not re.match(r"(?:that|not|no|to)\b", rest):
            yield from self._verb(subject, verb, rest)
        for passive in PASSIVE.finditer(rest):
            if _is_about_the_subject(rest[: passive.start()]):
                yield from self._passive(subject, passive, rest)
        for cast in WITH.finditer(f"{verb} {rest}"):
            for name in objects(f"{verb} {rest}"[cast.end() :], "starring"):
                yield subject, "starring", name
        for alias in ALIAS.finditer(rest):
            yield subject, _alias_relation(alias["how"]), alias["name"]

    def _kind(self, subject: str, verb: str, rest: str) -> Iterator[_Parts]:
        """Read kind, year and origin from "is a 1938 American western film directed by"."""
        match = KINDS.match(rest)
        if match is None:
            return
        rest = match["rest"]
        boundary, ends = BOUNDARY.search(rest), ENDS_KIND.search(rest)
        stop = min(found.start() for found in (boundary, ends) if found) if boundary or ends else len(rest)
        kind = rest[:stop].rstrip(" ,")
        if not kind or len(kind.split()) > 16 or re.fullmatch(r"often|never|always|there|not|\w+ly", kind):
            return
        if match["article"] or re.match(r"[a-z\d]", kind) or subject == self.about.name:
            yield subject, f"{verb} a" if match["article"] in ("a", "an") else verb, kind
        if match["article"] and subject == self.about.name:
            self.about.kinds |= set(words(kind)) - STOP_WORDS
        year = YEAR.match(kind)
        if year:
            yield subject, "year", year["year"]
            kind = kind[year.end() :]
        origin = ORIGINS.match(kind) or (ORIGINS.search(kind) if match["article"] else None)
        if origin:
            person = PERSONS.search(kind) is not None and not re.search(r"\b(?:film|song|album|series|novel)\Z", kind)
            yield subject, "nationality" if person else "country of origin", origin["origin"]
        language = LANGUAGE.search(kind)
        if language:
            yield subject, "language", language["language"]
        of = OF_KIND.search(rest[: boundary.start()] if boundary else rest)
        if of and of["noun"] not in STOP_WORDS and not re.fullmatch(PARTICIPLE, of["noun"]):
            for name in objects(rest[of.end() :], of["prep"]):
                yield subject, f"{of['noun']} {of['prep']}", name
            for further in re.finditer(rf",\s+in\s+(?:the\s+)?(?P<place>{PLACE})", rest[of.end() :]):
                yield subject, f"{of['noun']} in", further["place"]

    def _verb(self, subject: str, verb: str, rest: str) -> Iterator[_Parts]:
        """Read the object of a verb and its prepositions, as in "died on 3 March 1972 in Beverly Hills"."""
        statement = BOUNDARY.split(rest, 1)[0]
        prepositions = list(re.finditer(rf"(?:\A|\s|,\s*)(?P<prep>{PREPOSITIONS})\s+", statement))
        direct = re.sub(r"\A(?:the|an?)\s+", "", statement[: prepositions[0].start()] if prepositions else statement)
        named = re.match(NAMES, re.sub(r"\A(?:the|an?)\s+", "", statement))
        found = names_in(named[0]) if named and direct.strip(" ,") else phrase(direct)
        if direct.strip(" ,") and not found:
            return
        for one in found:
            yield subject, verb, one
        name = f" {found[0]}" if len(found) == 1 and len(found[0].split()) <= 5 else ""
        passed = statement.find(named[0]) + len(named[0]) if named and found else 0
        for prep in prepositions[:4]:
            if prep.start() < passed or (prep["prep"] == "of" and prep is not prepositions[0]):
                continue
            for tail in objects(rest[prep.end() :], prep["prep"]):
                yield subject, f"{verb}{name} {prep['prep']}", tail

    def _passive(self, subject: str, match: re.Match[str], text: str) -> Iterator[_Parts]:
        """Read each participle with its preposition, as in "written and directed by X in 1990"."""
        verbs = re.findall(rf"(?:re-|co-)?{PARTICIPLE}", match["verbs"])
        rest = text[match.end() :]
        for verb in verbs:
            for tail in objects(rest, match["prep"]):
                yield subject, f"{verb} {match['prep']}", tail
        end = BOUNDARY.search(rest)
        following = re.match(r"[^;.]*?\s(?P<prep>in|on|at)\s+", rest[: end.start()] if end else rest)
        if following and not PASSIVE.search(following[0]) and match["prep"] != following["prep"]:
            for tail in objects(rest[following.end() :], following["prep"]):
                yield subject, f"{verbs[-1]} {following['prep']}", tail

    def _kin(self, subject: str, clause: str) -> Iterator[_Parts]:
        for match in islice(KIN_OF.finditer(clause), 8):
            apposed = re.search(
                rf"(?P<name>{NAME}),\s+(?:the\s+|an?\s+)?(?:[a-z]+\s+){{0,2}}\Z", clause[: match.start()]
            )
            head = subject
            if apposed and re.search(rf"\s{VERB}\s", f" {clause[: match.start() - len(apposed[0])]} "):
                head = apposed["name"]
            for name in objects(clause[match.end() :], "of"):
                yield head, f"{match['kin']} of", name
        for match in OWN_KIN.finditer(clause):
            name = re.match(NAME, clause[match.end() :])  # type: ignore[assignment]
            if name and self.about.name:
                yield self.about.name, match["kin"], name[0]

    def _relative(self, clause: str, relative: re.Match[str], subject: str) -> Iterator[_Parts]:
        """Read a clause with "who" or "which" about the name before it, or after "is a ..." about the subject."""
        named = re.search(rf"(?P<name>{NAME})\Z", clause[: relative.start()])
        if named is None and (relative["comma"] or not SAYS_WHAT.search(clause[: relative.start()])):
            return
        head = self.about.subject(named["name"]) if named else subject
        rest = clause[relative.end() :]
        verb = re.match(rf"(?:had\s+|has\s+)?(?P<verb>{VERB})\s+", rest)
        if verb is not None:
            yield from self._predicate(head, verb["verb"], rest[verb.end() :])


def _is_about_the_subject(before: str) -> bool:
    """Check that a participle after these words refers to the subject: not to a noun in between, and not negated."""
    before = before.rstrip()
    last = before.split()[-1] if before else ""
    if last in ("not", "never", "n't"):
        return False
    if not before or before.endswith((",", " and")) or not last[0].islower():
        return True
    return re.search(r"\s(?:in|on|at|by|to|for|from|with|of|due)\s", f" {before} ") is None


def _alias_relation(phrase: str) -> str:
    """Return the relation of an alias, such as "known as"."""
    how = one_line(phrase.lower())
    return f"{how} as" if "known" in how or "romani" in how else how


def _is_prose(key: str, value: str) -> bool:
    """Check whether a line with a colon is a sentence rather than a key and its value."""
    return (
        (value.endswith(".") and re.search(rf"\b{COPULA}\b", value) is not None and value.lstrip("\"“‘'")[:1].isupper())
        or re.search(r"[\"“”()]", key) is not None
        or len(key.split()) > 6
        or re.search(rf"\b(?:{COPULA}|has|had|have)\b", key) is not None
    )
