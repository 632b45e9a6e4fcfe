"""Normalised texts, in all scripts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

from mergewise.evaluate.answers import score_answer
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.words import normalise
from mergewise.models.tokens import count_tokens
from mergewise.types import Span


def holds(context: str, answer: str) -> bool:
    return score_context(Question("1", "?", (answer,), None), context, 10, count_tokens).answer == 1


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("It was built in 12 years.", "12"),
        ("at 12:30", "12"),
        ("on 12.05.2020.", "2020"),
        ("It costs 3.5 euros.", "3.5"),
        ("It costs 3,5 Euro.", "3,5"),
        ("Some 1,200,000 came.", "1200000"),
        ("pages 1,2,3", "2"),
        ("the “Eiffel‐Tower”", "Eiffel Tower"),
        ("a soft\u00adhyphen", "softhyphen"),
        ("the ﬁrst", "first"),
        ("caf\u0065\u0301", "caf\u00e9"),
        ("黑豹队的防守只丢了 308分。", "308"),
        ("巴拿马运河于1914年通航。", "1914年"),
        ("東京タワーは１９５８年に完成した。高さは三百三十三メートル。", "1958年"),
        ("東京タワーの設計者は内藤多仲。", "内藤多仲"),
        ("เมืองหลวงคือกรุงเทพมหานคร", "กรุงเทพมหานคร"),
        ("서울은 대한민국의 수도이다.", "서울"),
    ],
)
def test_whole_words_match(context: str, answer: str) -> None:
    assert holds(context, answer)


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("It was built in 2012.", "12"),
        ("It costs 3.5 euros.", "5"),
        ("It costs 3,5 Euro.", "5"),
        ("Some 1,200 came.", "200"),
        ("version 1.25", "25"),
        ("towers", "tower"),
        ("มา้", "มา"),
        ("308分", "30"),
        ("内藤", "内藤多仲"),
        ("", "x"),
    ],
)
def test_parts_of_words_do_not_match(context: str, answer: str) -> None:
    assert not holds(context, answer)


SENTENCES = {
    "zh": (
        "黑豹队的防守只丢了 308分，在联赛中排名第六。",
        "巴拿马运河于1914年通航。",
        "“他是五次职业碗选手”，记者说。",
    ),
    "ja": ("東京タワーは１９５８年に完成した。", "高さは333メートルである。", "設計者は内藤多仲（ないとうたちゅう）。"),
    "th": ("กรุงเทพมหานครเป็นเมืองหลวง", "มีประชากร 10 ล้านคน", "แม่น้ำเจ้าพระยาไหลผ่าน"),
    "en": ("It was built in 1,200 days. ", "Who? “He”, they said. ", "It costs 3.5 euros. "),
}


@pytest.mark.parametrize("language", SENTENCES)
@given(st.permutations(range(3)))
def test_evidence_matches_between_its_neighbours(language: str, order: list[int]) -> None:
    """In scripts without blanks, each sentence of a text matches, and a missing sentence does not."""
    sentences = SENTENCES[language]
    context = "".join(sentences[i] for i in order[:2])
    evidence = tuple((Span("d", 0, len(text)), text) for text in sentences)
    score = score_context(Question("1", "?", ("x",), evidence), context, 100, count_tokens)
    assert score.evidence == pytest.approx(2 / 3) and score.all == 0


words = st.sampled_from(["cat", "12", "2012", "分", "三百", "タワー", "Cat", "３"])


@given(st.lists(words, max_size=8), st.lists(words, min_size=1, max_size=3))
def test_matches_are_runs_of_words(context: list[str], answer: list[str]) -> None:
    """The slow reference: each Chinese or Japanese character is a word, and blanks separate other words."""

    def slow(parts: list[str]) -> list[str]:
        plain = [part.lower().replace("３", "3") for part in parts]
        return [word for part in plain for word in ([part] if part.isascii() else part)]

    ours, theirs = slow(context), slow(answer)
    runs = [ours[i : i + len(theirs)] for i in range(len(ours))]
    assert holds(" ".join(context), " ".join(answer)) is (theirs in runs)


@settings(max_examples=examples(40))
@given(st.text())
def test_normalising_is_idempotent(text: str) -> None:
    once = normalise(text)
    assert once.startswith(" ") and once.endswith(" ") and "  " not in once.strip()


def test_answers_in_scripts_without_blanks_between_words() -> None:
    exact = score_answer("308分。", ["308分"])
    assert (exact.em, exact.f1, exact.relaxed_em) == (1, 1, 1)
    longer = score_answer("防守丢了308分", ["308分"])
    assert (longer.em, longer.relaxed_em) == (0, 1) and longer.f1 == pytest.approx(2 * (2 / 6) / (2 / 6 + 1))
    assert score_answer("防守丢了2308分", ["308分"]).contains_words == 0
