from __future__ import annotations

import gzip
import re
import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.names import words_of
from mergewise.text.terms import LETTERS, TermFinder, composed, content_terms, spelled_terms


def test_stop_words_are_dropped_and_inflections_share_a_stem() -> None:
    assert content_terms("What is merging a section?") == content_terms("Sections merge.")
    assert content_terms("Is it the of?") == frozenset()


def test_scripts_without_spaces_give_characters() -> None:
    assert content_terms("東京タワー") >= {"東", "京"}


def test_combining_marks_are_part_of_their_word() -> None:
    assert content_terms("वह सक्रिय है") == {"वह", "सक्रिय", "है"}
    assert content_terms("ง่ายมาก") == {"ง่ายมาก"}
    assert content_terms(unicodedata.normalize("NFD", "Müller")) == {"müller"}
    assert len(words_of("सक्रिय भूकंप").folded) == 2


def test_every_mark_of_the_basic_plane_joins_its_letters() -> None:
    marks = [c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c) in ("Mn", "Mc", "Me")]
    assert len(marks) > 1000
    assert [mark for mark in marks if not re.fullmatch(LETTERS, f"a{mark}b")] == []
    assert [c for c in " \n.,;:!?-–—'’\"()[]{}<>/|*_#=+…·।॥、。" if re.fullmatch(LETTERS, f"a{c}b")] == []


SYLLABLES = "abeginorsty' -_"


def held(finder: TermFinder, texts: list[str]) -> list[set[str]]:
    return [{term for _, term in places} for places in finder.places(texts)]


@given(
    st.text(alphabet=SYLLABLES + ".éК’東", max_size=30),
    st.lists(
        st.text(alphabet=SYLLABLES, max_size=60)
        | st.text(alphabet=SYLLABLES + "éК’—²", max_size=60)
        | st.text(alphabet=SYLLABLES + "éК’\u0301東İ", max_size=60),
        max_size=4,
    ),
)
def test_the_finder_matches_the_full_analysis(question: str, texts: list[str]) -> None:
    terms = content_terms(question)
    finder = TermFinder({term: (term,) for term in terms})
    assert held(finder, texts) == [terms & content_terms(text) for text in texts]
    for text, places in zip(texts, finder.places(texts), strict=True):
        assert [at for at, _ in places] == sorted(at for at, _ in places)
        assert all(term in content_terms(text[at:]) for at, term in places if text.isascii())


def test_the_finder_finds_the_inflections_of_real_words(bench: Path) -> None:
    with gzip.open(bench / "squad/corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        words = sorted({word for line in lines for word in line.split()})
    terms = content_terms(" ".join(words))
    finder = TermFinder({term: (term,) for term in terms})
    assert held(finder, words[::7]) == [content_terms(word) for word in words[::7]]


def test_terms_are_spelled_as_the_text_spells_them_first() -> None:
    assert spelled_terms("Does the Handler handle it?") == {"handler": "Handler", "handl": "handle"}
    assert (
        spelled_terms("Runs, running").keys() == content_terms("Runs, running")
        and spelled_terms("Runs, running")["run"] == "Runs"
    )


@given(st.text(st.sampled_from("aéﬁ한국ß １ế.") | st.characters(), max_size=40))
def test_terms_are_the_same_in_each_form_of_unicode(text: str) -> None:
    written, composed_ = unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)
    assert content_terms(written) == content_terms(composed_)
    joined, offsets = composed(written)
    assert joined == composed_ or not unicodedata.is_normalized("NFC", joined)
    assert len(offsets) == len(joined) and list(offsets) == sorted(offsets)


def test_british_and_american_spellings_have_the_same_terms() -> None:
    british = "colours behaviour organised organisation analysing theatre metres catalogue neighbouring"
    assert content_terms(british) == content_terms(
        "colors behavior organized organization analyzing theater meters catalog neighboring"
    )
    assert len(content_terms("four hours course there entire wise raised size")) == 7
