from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mergewise.text.languages import Terms, shares_of_forms
from mergewise.text.languages.analysis import WORD
from mergewise.text.languages.terms import FormFinder, term_places
from mergewise.text.terms import TermFinder, composed, content_terms, spelled_terms

QUESTIONS = {
    "de": (
        "Wie kann ich die Umgebungsvariablen setzen?",
        "Setze eine Umgebungsvariable.",
        ["Umgebungsvariablen", "setzen"],
    ),
    "tr": ("Marconi'nin gösterileri ne zaman yapıldı?", "MARCONİ bir gösteri yaptı.", ["Marconi", "gösterileri"]),
    "ru": ("Когда были построены эти башни?", "Башня была построена здесь.", ["построены", "башни"]),
    "hi": ("इस टीम के खिलाड़ी कौन हैं?", "यह टीम का खिलाड़ी है।", ["टीम", "खिलाड़ी"]),
    "zh": ("黑豹队的防守?", "豹队防守很好", ["豹队", "防守"]),
    "ja": ("リクエストの関数を呼び出す", "関数を呼びます。リクエスト", ["リクエスト", "関数", "呼び"]),
    "ko": ("함수를 부르는 방법", "함수 방법", ["함수", "방법"]),
    "th": ("ง่ายมาก", "มันง่ายมากจริง", ["ง่ายมาก"]),
}


def found(finder: TermFinder | FormFinder, texts: list[str]) -> list[set[str]]:
    return [{term for _, term in places} for places in finder.places(texts)]


@pytest.mark.parametrize("language", QUESTIONS)
def test_terms_are_found_by_the_rules_of_the_language_and_spelled_as_asked(language: str) -> None:
    question, text, spelled = QUESTIONS[language]
    terms = Terms(question, {language: {}})
    (held,) = found(terms.finder(), [text])
    assert held <= terms.all and terms.spellings(held) == spelled


def test_common_words_of_the_index_and_of_the_language_say_nothing() -> None:
    question = "Wie kann ich die API starten?"
    assert Terms(question, {"de": {}}).spellings(Terms(question, {"de": {}}).all) == ["API", "starten"]
    terms = Terms(question, {"de": {"api": 0.5, "start": 0.3}})
    assert terms.spellings(terms.all) == ["starten"]
    assert terms.within("Die API startet") == {"start"} and terms.within("die API") == frozenset()


def test_a_question_in_one_of_two_languages_is_stemmed_by_both() -> None:
    terms = Terms("Docker containers ports", {"de": {}, "en": {}})
    assert len(terms.all) == 3
    assert found(terms.finder(), ["a container", "Die Containern"]) == [{"contain"}, {"contain"}]


def test_questions_in_english_keep_their_terms() -> None:
    known: list[dict[str, dict[str, float]]] = [{}, {"en": {}}]
    for shares in known:
        terms = Terms("Does the Handler handle it?", shares)
        assert terms.all == content_terms(terms.question) and not terms.parts
        assert terms.spellings(terms.all) == list(spelled_terms(terms.question).values())[::-1]
        assert found(terms.finder(), ["It handles it."]) == [{"handl"}]


def test_a_word_that_no_text_has_is_found_in_compounds() -> None:
    finder = Terms("Variablen der Umgebung", {"de": {}}).finder()
    assert found(finder, ["Eine Umgebungsvariable.", "Die Variable."]) == [{"umgeb"}, {"variabl"}]
    finder = Terms("Umgebungsvariablen", {"de": {}}).finder()
    assert found(finder, ["Die Umgebung."]) == [{"umgebungsvariabl"}] and found(finder, ["Um die Umgebungs"]) != [set()]
    finder = Terms("Umgebung", {"de": {}}).finder()
    assert found(finder, ["Die Umgebung.", "Umgebungsvariable"]) == [{"umgeb"}, frozenset()]


def test_shares_count_each_text_once() -> None:
    texts = ["Start und Start", "Starten", "Ende", "関数"]
    assert shares_of_forms(texts, "de") == {"start": 0.5, "end": 0.25, "関数": 0.25}


ALPHABET = "abeinrstuI'’ .-üßıİéšжщаиটেकाि東京とトを大가각ง่าย\u0301\u0307"
LANGUAGES = st.sampled_from([("de",), ("tr",), ("ru",), ("hi",), ("zh",), ("ja",), ("de", "en"), ("es", "fr")])


def literal(terms: dict[str, str], texts: list[str], languages: tuple[str, ...]) -> list[set[str]]:
    """Find the terms by the analysis of each whole text, in composed letters."""
    texts = [composed(text)[0] for text in texts]

    def words_in(text: str) -> list[tuple[str, ...]]:
        return [forms for _, _, forms in term_places(text, languages) if re.match(WORD, forms[0])]

    def all_words(text: str) -> set[str]:
        return {form for forms in words_in(text) for form in forms}

    def begins(one: str, other: str) -> bool:
        shorter, longer = sorted((one, other), key=len)
        return len(shorter) >= 4 and longer[: len(shorter)] == shorter

    met = {terms[form] for text in texts for form in all_words(text) if form in terms}
    held_by = []
    for text in texts:
        held = {term for form, term in terms.items() if not re.match(WORD, form) and form in text}
        for forms in words_in(text):
            same = {terms[form] for form in forms if form in terms}
            unmet = {form for form, term in terms.items() if term not in met and re.match(WORD, form)}
            held |= same or {terms[one] for one in unmet for form in forms if begins(one, form)}
        held_by.append(held)
    return held_by


@given(
    st.text(alphabet=ALPHABET, max_size=30), st.lists(st.text(alphabet=ALPHABET, max_size=60), max_size=4), LANGUAGES
)
@example("า", ["I\u0301า"], ("de",))
def test_the_finder_matches_the_full_analysis(question: str, texts: list[str], languages: tuple[str, ...]) -> None:
    terms = {form: forms[0] for _, _, forms in term_places(question, languages) for form in forms}
    finder = FormFinder({form: (term,) for form, term in terms.items()}, languages)
    assert found(finder, texts) == literal(terms, texts, languages)
    for text, places in zip(texts, finder.places(texts), strict=True):
        assert all(composed(text[at:])[0].startswith(term) for at, term in places if term in finder._parts)


@pytest.mark.parametrize("languages", [(), ("de", "en")])
def test_a_word_that_joins_terms_has_them(languages: tuple[str, ...]) -> None:
    terms = Terms("maximum retries per COVID-19", {language: {} for language in languages})
    (found,) = terms.finder().places(["Set maximumRetries of Covid19 to three retries."])
    assert [at for at, _ in found] == [4, 4, 22, 22, 39] and {term for _, term in found} == terms.all - terms.within(
        "per"
    )


def test_a_word_in_camel_case_has_its_parts() -> None:
    terms = Terms("What is maxRetries of JavaScript for iPhone?")
    assert terms.all == {"maxretri", "max", "retri", "javascript", "java", "script", "iphon"}
    assert terms.parts == {"maxretri", "javascript"} and set(terms.joined_words()) == {"maxretries", "javascript"}
    assert not Terms("日本語 の文").joined_words()
