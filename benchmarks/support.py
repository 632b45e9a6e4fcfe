"""Accuracy of the support judges on true and false sentences made from real text.

python -m benchmarks.support [--half development|held-out] [--sentences 40] [--seed 0] [--wrong KIND]

Texts come from the question sets, from six languages and from the manuals. The hash of a document's id decides its half.
Each sentence is judged against a few sentences around it (`cited`), and against these plus four passages of other documents
(`context`), like an answer that names no source. True sentences are copies and small rewritings with the same meaning.
False sentences are copies or rewritings with one change (a figure, a name, a negation, a unit, a word or its opposite), or they
bring in something from another document. `--wrong` prints the wrongly judged sentences of one kind. The test cases are judged
as well.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.text import support_cases

from benchmarks import manuals
from benchmarks.corpus import bench_folder
from mergewise.readers import read_file
from mergewise.text.markup import readable
from mergewise.text.sentences import split_sentences
from mergewise.text.support.judge import Judge
from mergewise.text.support.names import quotations_in
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.text.terms import STOP_WORDS

SETS = ("hotpotqa", "2wiki", "squad", "covidqa")
LANGUAGES = ("de", "es", "ru", "tr", "zh", "hi")
HALVES = ("development", "held-out")
LEAST, MOST = 40, 320  # characters of a sentence
AROUND = 3  # sentences on each side
OTHERS = 4  # passages of other documents


@dataclass(frozen=True, slots=True)
class Passage:
    """Sentences of a document, and its title."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Stated:
    """A sentence, how it was made, whether it is true, and the passages to judge it against."""

    text: str
    kind: str
    true: bool
    group: str  # question set, language or manuals
    passages: tuple[Passage, ...]


def is_supported(stated: Stated) -> bool:
    judge = Judge(
        lambda n: ReadSource.of(
            [Extract(stated.passages[n].text, 0, len(stated.passages[n].text))], stated.passages[n].title
        )
    )
    keys, quotations = range(len(stated.passages)), [text for _, _, text in quotations_in(stated.text)]
    return all(judge.judge(stated.text[a:b], keys, quotations).support for a, b in split_sentences(stated.text))


# -- texts


def documents(group: str) -> Iterator[tuple[str, str, str]]:
    """Yield (id, title, text) of the documents of a question set, of a language, or of the manuals."""
    if group == "manuals":
        for path in sorted(p for p in manuals.FOLDER.rglob("*") if p.suffix in (".md", ".rst")):
            document = read_file(path).document
            yield str(path.relative_to(manuals.FOLDER)), document.title, document.text
        return
    folder = bench_folder() / group if group in SETS else bench_folder().parent / "languages" / group
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["id"], row["title"], row["text"]


def half_of(doc_id: str) -> str:
    return HALVES[hashlib.sha256(doc_id.encode()).digest()[0] % 2]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sentence, its document's title, and the sentences around it."""

    sentence: str
    following: str
    passage: Passage


def drawn(group: str, half: str, count: int, draw: random.Random) -> list[Drawn]:
    """Draw one sentence each from `count` documents of the half."""
    chosen = [row for row in documents(group) if half_of(row[0]) == half]
    draw.shuffle(chosen)
    found: list[Drawn] = []
    for _, title, text in chosen:
        spans = split_sentences(text)
        fit = [i for i, (a, b) in enumerate(spans) if LEAST <= b - a <= MOST and _is_prose(text[a:b])]
        if not fit:
            continue
        i = draw.choice(fit)
        start, end = spans[max(0, i - AROUND)][0], spans[min(len(spans) - 1, i + AROUND)][1]
        following = text[slice(*spans[i + 1])] if i + 1 < len(spans) else ""
        found.append(Drawn(text[slice(*spans[i])], following, Passage(title, text[start:end])))
        if len(found) == count:
            break
    return found


def _is_prose(sentence: str) -> bool:
    return sentence[-1] in ".。।" and "\n" not in sentence and not re.search(r"[|{}<>=]|::", sentence)


# -- true sentences

_SPELLED = "two three four five six seven eight nine ten eleven twelve".split()
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_SYNONYMS = {
    "also": "too", "because": "since", "large": "big", "many": "numerous", "used": "employed", "began": "started",
    "about": "approximately", "near": "close to", "shows": "demonstrates", "often": "frequently", "usually": "normally",
    "whole": "entire", "create": "make", "called": "named", "must": "has to", "first": "initially", "later": "subsequently",
}  # fmt: skip


def _fronted(d: Drawn) -> str:
    match = re.fullmatch(r"([A-Z][^,;:]{15,}) ((?:in|on|at|during|since|after) [^,;:]{3,40})\.", d.sentence)
    return "" if match is None else f"{match[2][0].upper()}{match[2][1:]}, {_lower(match[1])}."


def _exchanged(d: Drawn) -> str:
    return re.sub(r"\b([a-z]{3,}) and ([a-z]{3,})\b(?! [a-z])", r"\2 and \1", d.sentence, count=1)


def _spelled(d: Drawn) -> str:
    names = {str(n): name for n, name in enumerate(_SPELLED, 2)} | {name: str(n) for n, name in enumerate(_SPELLED, 2)}
    words = rf"(?<![\w.,:/–-])({'|'.join(names)})(?![\w:/%–-]|[.,]\d)"
    made = re.sub(words, lambda match: names[match[0]], d.sentence)
    return re.sub(r"\b(\d{1,3}),(\d{3})\b(?!,)", r"\1\2", made)


def _dated(d: Drawn) -> str:
    made = re.sub(rf"\b(\d{{1,2}}) ({_MONTHS}) (\d{{4}})", r"\2 \1, \3", d.sentence)
    return made if made != d.sentence else re.sub(rf"\b({_MONTHS}) (\d{{1,2}}), (\d{{4}})", r"\2 \1 \3", d.sentence)


def _joined(d: Drawn) -> str:
    both = d.following and _is_prose(d.following) and len(d.following) < MOST
    return f"{d.sentence[:-1]}, and {_lower(d.following)}" if both else ""


def _shortened(d: Drawn) -> str:
    made = re.sub(r"\s*\([^()]*\)", "", d.sentence)
    if made == d.sentence:
        match = re.fullmatch(r"([^,;:]{40,}), [^,;:]+\.", d.sentence)
        made = "" if match is None else match[1] + "."
    return made


def _without_adverbs(d: Drawn) -> str:
    return re.sub(
        r" (?!only|early|family|rely|apply|supply|reply|Italy|July)([a-z]{3,}ly|also|then)(?= [a-z])", "", d.sentence
    )


def _named(d: Drawn) -> str:
    title = re.sub(r"\s*\(.*", "", d.passage.title)
    return re.sub(r"\A(?:He|She|It|They) (?=[a-z])", title + " ", d.sentence) if title else ""


def _reported(d: Drawn) -> str:
    return f"The document says that {_lower(d.sentence)}"


def _contracted(d: Drawn) -> str:
    made = re.sub(r"\b(is|was|are|were|does|did|do|has|had|could|should|would) not\b", r"\1n't", d.sentence)
    return re.sub(r"\bcannot\b", "can't", made)


def _in_other_words(d: Drawn) -> str:
    return re.sub(r"\b[a-z]+\b", lambda match: _SYNONYMS.get(match[0], match[0]), d.sentence)


def _quoted(d: Drawn) -> str:
    plain = readable(d.sentence)
    words = plain.split()
    return f"It says “{' '.join(words[2:12])}”." if len(words) > 14 and not list(quotations_in(plain)) else ""


def _stripped(d: Drawn) -> str:
    return " ".join(readable(d.sentence).split())


TRUE: dict[str, Callable[[Drawn], str]] = {
    "copy": lambda d: d.sentence, "without mark-up": _stripped, "fronted": _fronted, "exchanged": _exchanged, "spelled": _spelled,
    "dated": _dated, "joined": _joined, "shortened": _shortened, "without adverbs": _without_adverbs, "named": _named,
    "reported": _reported, "contracted": _contracted, "other words": _in_other_words, "quoted": _quoted,
}  # fmt: skip


def _lower(text: str) -> str:
    first = text.split()[0]
    return text[0].lower() + text[1:] if first.lower() in STOP_WORDS and first != "I" else text


# -- false sentences

_UNITS = [
    "kilometres miles", "km miles", "metres feet", "seconds milliseconds", "minutes hours", "days weeks", "months years", "MB GB",
    "kg pounds", "bytes kilobytes", "percent million", "years months", "hours minutes", "°C °F", "km² ha", "mg g",
]  # fmt: skip
_OPPOSITES = [
    "increased decreased", "higher lower", "more less", "before after", "north south", "northern southern", "east west",
    "eastern western", "largest smallest", "oldest youngest", "first last", "enabled disabled", "true false",
    "positive negative", "born died", "always never", "larger smaller", "most least", "high low", "won lost", "maximum minimum",
    "early late", "old new", "allows forbids", "long short", "includes excludes", "start stop", "best worst", "left right",
    "above below", "with without", "public private", "optional required",
]  # fmt: skip


def _swapped(pairs: Sequence[str]) -> dict[str, str]:
    return {a: b for pair in pairs for a, b in (pair.split(), pair.split()[::-1])}


_UNIT_OF, _OPPOSITE_OF = _swapped(_UNITS), _swapped(_OPPOSITES)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}(?: [A-Z][a-z]{3,})*")


def _one(pattern: str, sentence: str, change: Callable[[re.Match[str]], str], draw: random.Random) -> str:
    """Change one random match of the pattern in the sentence."""
    found = list(re.finditer(pattern, sentence))
    if not found:
        return ""
    match = draw.choice(found)
    return sentence[: match.start()] + change(match) + sentence[match.end() :]


def _other_figure(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    def change(match: re.Match[str]) -> str:
        while True:
            made = "".join(draw.choice("123456789") for _ in match[0])
            if made not in d.passage.text and made not in d.passage.title:
                return made

    return _one(r"(?<![\d.,])\d{2,}(?![\d.,]\d)", sentence, change, draw)


def _other_name(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    names = [
        name for name in _NAME.findall(other.passage.text) if name.split()[0] not in d.passage.text + d.passage.title
    ]
    return _one(_NAME.pattern, sentence, lambda match: draw.choice(names), draw) if names else ""


def _own_name(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    names = [name for name in _NAME.findall(d.passage.text) if name not in sentence]
    return _one(_NAME.pattern, sentence, lambda match: draw.choice(names), draw) if names else ""


def _denied(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    return _one(
        r"\b(?:is|was|are|were|can|could|should|will|has|had)\b(?! not)", sentence, lambda m: f"{m[0]} not", draw
    )


def _affirmed(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    found = re.findall(r"\b(?:not|never|no)\b|n't\b", sentence)
    made = re.sub(r" (?:not|never)\b|n't\b", "", sentence, count=1)
    return made if len(found) == 1 and made != sentence else ""


def _exchange(table: dict[str, str]) -> Callable[[str, Drawn, Drawn, random.Random], str]:
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, table))})(?!\w)"
    return lambda sentence, d, other, draw: _one(pattern, sentence, lambda match: table[match[0]], draw)


def _other_word(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    words = [
        w for w in re.findall(r"\b[a-z]{5,}\b", other.sentence) if w not in STOP_WORDS and w[:4] not in d.passage.text
    ]
    return (
        _one(
            r"\b(?!which|their|there|these|about|after|other)[a-z]{5,}\b", sentence, lambda m: draw.choice(words), draw
        )
        if words
        else ""
    )


def _from_elsewhere(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    return other.sentence if other.sentence not in d.passage.text else ""


def _continued(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    words = [w for w in re.findall(r"\b[a-z]{4,}\b", other.sentence) if w not in d.passage.text]
    return f"{sentence[:-1]}, and {' '.join(words[:4])}." if len(words) >= 4 else ""


def _misquoted(sentence: str, d: Drawn, other: Drawn, draw: random.Random) -> str:
    words = _quoted(d)[9:-2].split()
    if len(words) < 6:
        return ""
    i = draw.randrange(1, len(words) - 2)
    words[i], words[i + 1] = words[i + 1], words[i]
    return f"It says “{' '.join(words)}”." if words[i] != words[i + 1] else ""


FALSE: dict[str, Callable[[str, Drawn, Drawn, random.Random], str]] = {
    "figure": _other_figure, "name of another text": _other_name, "name of the same text": _own_name, "denied": _denied,
    "affirmed": _affirmed, "unit": _exchange(_UNIT_OF), "opposite": _exchange(_OPPOSITE_OF), "word": _other_word,
    "from elsewhere": _from_elsewhere, "continued": _continued, "misquoted": _misquoted,
}  # fmt: skip


def cases(half: str, count: int, seed: int, among: bool) -> Iterator[Stated]:
    for group in (*SETS, "manuals", *(f"xquad-{name}" for name in LANGUAGES)):
        draw = random.Random(f"{seed} {group} {half}")
        found = drawn(group, half, count, draw)
        for number, one in enumerate(found):
            others = [found[(number + step) % len(found)] for step in range(1, OTHERS + 1)]
            passages = (one.passage, *(other.passage for other in others if among))
            stranger = found[(number + OTHERS + 1) % len(found)]
            made = {name: change(one) for name, change in TRUE.items()}
            true = {name: text for name, text in made.items() if text and (name == "copy" or text != one.sentence)}
            yield from (Stated(text, name, True, group, passages) for name, text in true.items())
            rewritten = draw.choice(list(true.values()))
            for name, change in FALSE.items():
                for basis in dict.fromkeys((one.sentence, rewritten)):
                    text = change(basis, one, stranger, draw)
                    if text and not any(" ".join(text.split()) in " ".join(p.text.split()) for p in passages):
                        yield Stated(text, name, False, group, passages)


def of_the_tests(half: str) -> Iterator[Stated]:
    for case in support_cases.TUNED if half == "development" else support_cases.HELD_OUT:
        passages = (Passage(case.title, case.passage),)
        yield from (Stated(text, "of the tests", True, "tests", passages) for text in case.true)
        yield from (Stated(text, "of the tests", False, "tests", passages) for text in case.lies)


def report(stated: Sequence[Stated], wrong: str) -> None:
    for true in (True, False):
        ours = [one for one in stated if one.true is true]
        right: dict[str, list[bool]] = {}
        for one in ours:
            judged = is_supported(one) is true
            for name in ("all", one.kind, one.group):
                right.setdefault(name, []).append(judged)
            if one.kind == wrong and not judged:
                print(one.text, file=sys.stderr)
        print("true sentences, passed" if true else "false sentences, caught")
        for name, rights in right.items():
            print(f"  {name:24}{len(rights):6}{100 * sum(rights) / len(rights):9.1f}%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, default="development")
    parser.add_argument("--sentences", type=int, default=40, help="Sentences per set, per language and of the manuals")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--wrong", default="", metavar="KIND")
    options = parser.parse_args()
    for among in (False, True):
        made = list(cases(options.half, options.sentences, options.seed, among))
        if not among:
            made += of_the_tests(options.half)
        print(f"\n{options.half}, {'context' if among else 'cited'}: {len(made)} sentences")
        report(made, options.wrong)


if __name__ == "__main__":
    main()
