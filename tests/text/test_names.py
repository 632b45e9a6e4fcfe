"""Names that a section defines, and names that a text mentions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.names import (
    LONGEST,
    LONGEST_TITLE,
    MOST_NAMES,
    Mention,
    mentions,
    names_defined,
    names_of_title,
    possible_names,
    with_series,
    words_of,
)
from mergewise.text.terms import STOP_WORDS


def mentions_in(text: str, known: set[str]) -> list[Mention]:
    return mentions(possible_names(words_of(text)), known)


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("The Base (film)", {"the base film", "base film", "the base", "base"}),
        ("Émile Chautard", {"emile chautard"}),
        ("Hans' Dog", {"hans dog"}),
        ("The", set()),
        ("12", set()),
        ("1984", {"1984"}),
        ("", set()),
    ],
)
def test_a_title_gives_its_forms(title: str, names: set[str]) -> None:
    assert names_of_title(title) == names


def test_a_first_sentence_gives_the_subject_and_its_other_names() -> None:
    first = "William Reeves Eason (October 2, 1886), known as B. Reeves Eason, was an American film director (AFD)."
    assert names_defined(["Breezy Eason"], first) == {
        "breezy eason", "william reeves eason", "b reeves eason", "afd",
    }  # fmt: skip


def test_a_sentence_that_does_not_describe_its_subject_defines_nothing() -> None:
    assert names_defined(["Set-up"], "Turn Both Screws clockwise until they stop.") == {"set-up"}


def test_a_sentence_defines_nothing_where_capitals_mark_every_noun() -> None:
    first = "Wenn Sie wissen, was das ist, lesen Sie weiter (API)."
    assert names_defined(["Hilfe"], first, "de") == {"hilfe"}
    assert "wenn sie" in names_defined(["Hilfe"], first)


def test_the_longest_known_name_is_mentioned_once() -> None:
    known = {"new york", "new york city", "york", "times"}
    found = mentions_in("He left New York City for the Times in York.", known)
    assert [mention.name for mention in found] == ["new york city", "times", "york"]


def marked_in(text: str, language: str) -> list[str]:
    words = words_of(text, [language])
    return [words.written(at, at + 1) for at, marked in enumerate(words.marked) if marked]


@pytest.mark.parametrize(
    ("language", "text", "marked"),
    [
        ("en", "Later Ada Brix met the mayor. Tea was served.", ["Ada", "Brix"]),  # sentence starts mark nothing
        ("de", "Dann setzt FastAPI die Umgebungsvariablen mit Ada Brix.", ["FastAPI"]),
        ("tr", "Sonra Ada Brix köprüyü yaptı.", ["Ada", "Brix"]),
        ("hi", "इसे एडा ब्रिक्स ने बनाया।", []),
        ("ar", "صممها المهندس في عام 1850.", ["1850"]),
        ("en", "Call `run` with read_file, os.path, camelCase, LM317 or a **dry run**.",
         ["run", "os.path", "camelCase", "LM317", "dry", "run"]),
        ("zh", "参见《依赖项》。", list("依赖项")),
        ("de", "Die „rote Mühle“ steht.", ["rote", "Mühle"]),
    ],
)  # fmt: skip
def test_a_word_is_marked_by_what_its_language_gives(language: str, text: str, marked: list[str]) -> None:
    assert marked_in(text, language) == marked


@pytest.mark.parametrize(
    ("language", "title", "text"),
    [
        ("zh", "环境变量", "你可以使用环境变量来配置应用。"),
        ("zh", "FastAPI 依赖项", "这里的 FastAPI 依赖项很简单"),
        ("ja", "依存関係", "これは依存関係を使う。"),
        ("ja", "パスパラメータ", "次にパスパラメータを宣言する。"),
        ("ko", "환경변수", "먼저 환경변수를 설정한다."),
        ("th", "ภาษาไทย", "เราเรียนภาษาไทยทุกวัน"),
        ("ar", "محمد علي", "ولد محمد علي في القاهرة"),
        ("hi", "एडा ब्रिक्स", "इसे एडा ब्रिक्स ने बनाया"),
        ("tr", "Ankara", "Sonra Ankara'nın nüfusu arttı."),
        ("tr", "İstanbul Boğazı", "Burası İstanbul Boğazı'na bakar."),
        ("de", "Rote Mühle", "Sie entwarf die rote Mühle."),
    ],
)
def test_titles_are_found_inside_texts_of_every_script(language: str, title: str, text: str) -> None:
    words = words_of(text, [language])
    (mention,) = mentions(possible_names(words), names_of_title(title))
    assert mention.name in names_of_title(title) and words.written(mention.first, mention.last) in text


def test_few_characters_are_a_name_only_where_something_marks_them() -> None:
    assert not mentions_in("请先运行它", {"运行"})
    assert [mention.name for mention in mentions_in("请先「运行」它", {"运行"})] == ["运行"]


@pytest.mark.parametrize(
    ("text", "name", "sure"),
    [
        ("met Ada there", "ada", True),
        ("Ada came", "ada", False),
        ("the voltage regulator", "voltage regulator", True),
        ("使用环境变量", "环境变量", True),
        ("使用依赖项", "依赖项", False),
    ],
)
def test_a_word_like_any_other_is_not_a_sure_name(text: str, name: str, sure: bool) -> None:
    (mention,) = mentions_in(text, {name})
    assert mention.is_sure(words_of(text)) is sure


@given(st.text(alphabet="环境变量依赖のをカタABab ก็ا`*「」.", max_size=60), st.sampled_from(["", "de", "zh", "tr"]))
def test_every_possible_name_lies_in_the_text(text: str, language: str) -> None:
    words = words_of(text, [language] if language else [])
    for name, first, last in possible_names(words):
        assert name.replace(" ", "") == "".join(words.folded[first:last])
        assert words.written(first, last) in text


@pytest.mark.parametrize("part", ["使用环境变量来配置", "word Name and ", "`a`", "ภาษาไทย", "**", "a.b "])
def test_long_texts_give_a_bounded_number_of_names(part: str) -> None:
    assert len(possible_names(words_of(part * (20_000 // len(part))))) < MOST_NAMES + LONGEST_TITLE


def test_single_words_need_a_capital_and_several_do_not() -> None:
    known = {"film", "voltage regulator", "of the regulator"}
    assert mentions_in("a film about the voltage regulator", known) == [Mention("voltage regulator", 4, 6)]
    assert [m.name for m in mentions_in("the Film", known)] == ["film"]


def test_a_possessive_and_accents_do_not_hide_a_name() -> None:
    assert words_of("Sartre’s Été").folded == ("sartre", "ete")


@given(st.text(alphabet="Ab c'.é-", max_size=40), st.sets(st.sampled_from(["ab", "ab c", "a", "b c", "c c"])))
def test_mentions_are_known_disjoint_and_at_their_positions(text: str, known: set[str]) -> None:
    words = words_of(text)
    found = mentions_in(text, known)
    position = 0
    for mention in found:
        assert mention.name in known and mention.first >= position
        assert " ".join(words.folded[mention.first : mention.last]) == mention.name
        position = mention.last
    assert bool(found) == any(name in known for name, _, _ in possible_names(words))


@given(st.text(alphabet="Ab c'The of.é-", max_size=40))
def test_possible_names_are_the_runs_that_the_rule_allows(text: str) -> None:
    words = words_of(text)
    allowed = []
    for first in range(len(words.folded)):
        for last in range(min(len(words.folded), first + LONGEST), first, -1):
            run = words.folded[first:last]
            marked = [one or other for one, other in zip(words.marked, words.unsure, strict=True)][first:last]
            outer = [word in STOP_WORDS and not mark for word, mark in ((run[0], marked[0]), (run[-1], marked[-1]))]
            short = marked[0] or len(run) <= 3
            single = len(run) == 1
            if (single and marked[0] and len(run[0]) > 1 and run[0] not in STOP_WORDS) or (
                not single and short and not any(outer)
            ):
                allowed.append((" ".join(run), first, last))
    assert [tuple(possible) for possible in possible_names(words)] == allowed


@pytest.mark.parametrize("title", ["PEP 8", "pep-0008", "pep8", "PEP-8: Layout", "PEP 8 – Layout"])
@pytest.mark.parametrize("text", ["PEP 8", "PEP 0008", "PEP-0008", "PEP8", "PEP\u00a08"])
def test_a_number_of_a_document_is_a_name_in_each_spelling(title: str, text: str) -> None:
    (mention, *_) = mentions_in(f"as {text} says", names_defined([title], ""))
    assert mention.name.replace("-", " ").replace(" ", "") == "pep8"


def test_a_numbered_title_gives_its_two_parts() -> None:
    names = names_of_title("RFC 9110: HTTP Semantics")
    assert names == {"rfc 9110 http semantics", "rfc 9110", "http semantics"}


def test_numbers_that_are_no_documents_stay() -> None:
    assert words_of("v2 utf-8 x86 1931 area51b 2nd LM317").folded == (
        "v2",
        "utf-8",
        "x86",
        "1931",
        "area51b",
        "2nd",
        "lm317",
    )
    assert names_of_title("Chapter 1") == {"chapter 1"}


@pytest.mark.parametrize(
    ("field", "title", "names"),
    [
        ("Obsoletes: 2616", "RFC 9110: HTTP Semantics", "Obsoletes: RFC 2616"),
        ("Updates: 2817, 0042 (if approved)", "rfc7230", "Updates: rfc 2817, rfc 0042 (if approved)"),
        ("Superseded-By: 8", "PEP 9: Layout", "Superseded-By: PEP 8"),
        ("Pages: 12", "Harbour guide", "Pages: 12"),
        ("ISSN: 2070-1721", "RFC 9110: HTTP Semantics", "ISSN: 2070-1721"),
    ],
)
def test_numbers_of_a_header_field_belong_to_the_series(field: str, title: str, names: str) -> None:
    assert with_series(field, title) == names
