"""Fusion operators with a model that invents text, which must never reach a context."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.mergerag import fusion_prompts as prompts
from mergewise.designs.mergerag.fusion_operators import Extractive, Modelled, copy, in_reading_order, point
from mergewise.designs.mergerag.merging import MergeChunk, Pair
from mergewise.designs.mergerag.pieces import ChunkSentence
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.models.tokens import count_tokens
from mergewise.types import Usage
from tests.designs.mergerag.support import sentences as sentences_in
from tests.designs.mergerag.support import source

QUESTION = "What do cats eat?"
HOST = "Cats eat fish. The cat is a mammal. It purrs."
GUEST = "Cats eat fish. Mice are food for cats. The weather was fine."


def make(host: str = HOST, guest: str = GUEST) -> Pair:
    sentences = sentences_in(source("host", host, 0.9), source("guest", guest, 0.3))
    of = {name: tuple(s for s in sentences if s.fragment.doc_id == name) for name in ("host", "guest")}
    return Pair(MergeChunk(1, 0.3, 20, of["guest"]), MergeChunk(0, 0.9, 20, of["host"]))


def texts(content: Sequence[ChunkSentence]) -> list[str]:
    return [s.text for s in content]


def extractive(pair: Pair, floor: float = 0.0, directional: bool = True) -> Extractive:
    worth = {"Cats eat fish.": 0.9, "Mice are food for cats.": 0.8, "The cat is a mammal.": 0.5, "It purrs.": 0.2}
    relevance = {s: worth.get(s.text, 0.1) for s in [*pair.host.content, *pair.source.content]}
    return Extractive(relevance, lambda depth: floor, directional)


def modelled(script: object, pair: Pair, ask: object = point, directional: bool = True) -> Modelled:
    models = Models(count_tokens, chat=ScriptedChat(script))  # type: ignore[arg-type]
    return Modelled(ask, QUESTION, models, extractive(pair, 0.5, directional))  # type: ignore[arg-type]


# -- extractive


def test_extractive_keeps_relevant_and_new_sentences() -> None:
    pair = make()
    (found,) = extractive(pair, floor=0.5)([pair])
    assert texts(found.kept) == ["Cats eat fish.", "The cat is a mammal.", "Mice are food for cats."]
    assert found.kept[0].fragment.doc_id == "host"  # the guest's own "Cats eat fish." says nothing new
    assert found.how == "extractive" and found.usage == Usage()


def test_of_duplicates_the_host_stays_only_with_a_direction() -> None:
    pair = make("Cats eat fish often.", "Cats eat fish often.")
    host, guest = pair.host.content[0], pair.source.content[0]
    better_guest = {host: 0.8, guest: 0.9}
    assert Extractive(better_guest, lambda d: 0, True).fuse(pair).kept == (host,)
    assert Extractive(better_guest, lambda d: 0, False).fuse(pair).kept == (guest,)


def test_the_floor_is_that_of_the_resulting_depth() -> None:
    pair = make()
    deep = Pair(pair.source, MergeChunk(2, 0.9, 20, pair.host.content, depth=3))
    asked: list[int] = []
    Extractive(extractive(pair).relevance, lambda d: asked.append(d) or 0.0, True)([pair, deep])  # type: ignore[func-returns-value]
    assert asked == [1, 4]


@given(st.permutations(range(6)), st.integers(0, 6), st.booleans())
def test_reading_order(order: list[int], count: int, directional: bool) -> None:
    pair = make()
    everything = [*pair.host.content, *pair.source.content]
    kept = in_reading_order([everything[i] for i in order[:count]], pair, directional)
    assert sorted(map(id, kept)) == sorted(id(everything[i]) for i in order[:count])
    for doc in ("host", "guest"):
        starts = [s.fragment.start for s in kept if s.fragment.doc_id == doc]
        assert starts == sorted(starts)
    docs = [s.fragment.doc_id for s in kept]
    assert docs == sorted(docs, key=["host", "guest"].index)


def test_a_source_sentence_of_the_hosts_section_goes_to_its_position() -> None:
    whole = sentences_in(source("d", "One is here. Two is here. Three is here."), source("e", "Another."))
    pair: Pair = Pair(MergeChunk(1, 0.1, 5, (whole[1],)), MergeChunk(0, 0.9, 9, (whole[3], whole[0], whole[2])))
    assert texts(in_reading_order(whole, pair, True)) == ["Another.", "One is here.", "Two is here.", "Three is here."]
    first: Pair = Pair(MergeChunk(1, 0.1, 5, (whole[0],)), MergeChunk(0, 0.9, 9, (whole[1], whole[3])))
    assert texts(in_reading_order(whole, first, True)) == ["One is here.", "Two is here.", "Another."]


# -- point


def test_numbers_are_sentences_of_the_pair_host_first() -> None:
    pair = make()
    operator = modelled(['{"keep":[5, 1, 1]}'], pair)
    (found,) = operator([pair])
    assert texts(found.kept) == ["Cats eat fish.", "Mice are food for cats."]
    assert (found.how, found.usage.calls, found.problem) == ("point", 1, "")
    (asked,) = operator.models.chat.asked  # type: ignore[union-attr]
    assert asked.schema == prompts.POINT_SCHEMA and QUESTION in asked.text
    assert "1. (Host) Cats eat fish.\n2. The cat is a mammal." in asked.text and "5. Mice" in asked.text


@pytest.mark.parametrize("ask", [point, copy])
def test_both_chunks_are_quoted_and_the_model_warned(ask: object) -> None:
    pair = make()
    operator = modelled(["NONE"], pair, ask)
    operator([pair])
    instructions, shown = operator.models.chat.asked[0].messages  # type: ignore[union-attr]
    code = shown.text.split("--- ")[1].split()[0]
    assert [line for line in shown.text.splitlines() if line.startswith("---")] == [
        f"--- {code} chunk A", f"--- {code} end", f"--- {code} chunk B", f"--- {code} end"
    ]  # fmt: skip
    assert "The chunks between lines that carry the code" in instructions.text


def test_directions_have_different_instructions() -> None:
    pair = make()
    told = []
    for directional in (True, False):
        operator = modelled(['{"keep":[]}'], pair, directional=directional)
        operator([pair])
        told.append(operator.models.chat.asked[0].messages[0].text)  # type: ignore[union-attr]
    assert "host" in told[0] and "host" not in told[1]


@pytest.mark.parametrize(
    "answer",
    ['{"keep":"2-4 7"}', '{"keep":[2, 3, 4, 7]}', "[2,3,4,7]", '```json\n{"keep": "2 - 4, 7"}\n```', " 2-4 7 \n", "2,3,4,7",
     "```\n2-4 7\n```", 'I keep these: {"keep": "2-4 7"}', '{"keep":"2 3-4 3 7"}'],
)  # fmt: skip
def test_forms_that_are_read(answer: str) -> None:
    assert prompts.numbers_in(answer, 9) == [2, 3, 4, 7]


@pytest.mark.parametrize("answer", ['{"keep":""}', '{"keep":[]}', "[]", '""'])
def test_none_is_an_answer(answer: str) -> None:
    assert prompts.numbers_in(answer, 9) == []


@pytest.mark.parametrize(
    "answer",
    ["", " ", "two", '{"keep":"0"}', '{"keep":[4]}', '{"keep":["2"]}', '{"keep":[2.0]}', '{"keep":[true]}', "true", "2.5",
     '{"keep":"2","answer":"fish"}', '{"drop":"2"}', '{"keep":[2', "Sure! 2", '{"keep":[-1]}', "null", '{"keep":"1-4"}',
     '{"keep":"1-99999999"}', '{"keep":"1-2-3"}', '{"keep":"1 and 2"}', "[" * 5000, "I keep [2] and [3].",
     '{"keep":"3-1"}', '{"keep":"1 3-2"}', '{"keep":' * 5000],
)  # fmt: skip
def test_forms_that_are_not(answer: str) -> None:
    assert isinstance(prompts.numbers_in(answer, 3), str)


def test_a_bad_answer_is_repaired_once() -> None:
    pair = make()
    operator = modelled(["I keep the fish.", '{"keep":[1]}'], pair)
    (found,) = operator([pair])
    assert texts(found.kept) == ["Cats eat fish."] and found.usage.calls == 2 and found.how == "point"
    repair = operator.models.chat.asked[1].messages  # type: ignore[union-attr]
    assert repair[-2].text == "I keep the fish." and "it is no list of numbers" in repair[-1].text


def test_after_a_failed_repair_the_extractive_operator_decides() -> None:
    pair = make()
    (found,) = modelled(['{"keep":[99]}'], pair)([pair])
    assert found.kept == extractive(pair, 0.5).fuse(pair).kept
    assert (found.how, found.usage.calls) == ("extractive", 2) and "there is no sentence 99" in found.problem


@pytest.mark.parametrize("ask", [point, copy])
def test_a_model_that_fails_does_not_fail_the_query(ask: object) -> None:
    pair = make()
    operator = modelled([Turn(status=500)], pair, ask)
    found = operator([pair, pair])
    assert [f.how for f in found] == ["extractive"] * 2
    assert all(f.kept == extractive(pair, 0.5).fuse(pair).kept and "failed" in f.problem for f in found)


def test_pairs_are_asked_about_at_the_same_time() -> None:
    pair = make()
    operator = modelled([Turn('{"keep":[1]}', pause=0.05)], pair)
    operator([pair] * 4)
    assert operator.models.chat.transcript.most_at_once == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("ask", [point, copy])
def test_an_empty_chunk_needs_no_call(ask: object) -> None:
    pair = make()
    nothing: MergeChunk = MergeChunk(9, 0.0, 0, ())
    operator = modelled(["never"], pair, ask)
    found = operator([Pair(nothing, nothing), Pair(nothing, pair.host), Pair(pair.source, nothing)])
    assert [fusion.kept for fusion in found] == [(), pair.host.content, pair.source.content]
    assert operator.models.chat.asked == []  # type: ignore[union-attr]


# -- copy


def copied(answer: str, directional: bool = True) -> tuple[list[str], int, str]:
    pair = make()
    (found,) = modelled([answer], pair, copy, directional)([pair])
    return texts(found.kept), found.unsupported, found.how


def test_copied_sentences_are_those_of_the_pair() -> None:
    both = ["Cats eat fish.", "Mice are food for cats."]
    assert copied(" ".join(both[::-1])) == (both, 0, "copy")
    assert copied("cats eat FISH!\n\nIt purrs") == (["Cats eat fish.", "It purrs."], 0, "copy")


def test_sentences_of_neither_chunk_are_dropped_and_counted() -> None:
    kept, unsupported, how = copied("Cats eat fish. Cats also love strawberries with cream. In 1999 they ate 12 tons.")
    assert (kept, unsupported, how) == (["Cats eat fish."], 2, "copy")


def test_half_of_the_words_are_not_a_copy() -> None:
    """Five of eight words and four of seven pairs are those of a sentence: a support of 0.6."""
    kept, unsupported, _ = copied("Cats eat fish. Mice are food for cats and small dogs.")
    assert (kept, unsupported) == (["Cats eat fish."], 1)


def test_an_answer_instead_of_a_copy_falls_back_to_extractive() -> None:
    kept, unsupported, how = copied("The answer to the question would be strawberries and cream.")
    assert (unsupported, how) == (1, "extractive") and "Cats eat fish." in kept
    assert copied("")[2] == "extractive"


def test_an_answer_instead_of_a_copy_is_asked_for_again_with_the_reason() -> None:
    pair = make()
    chat = ScriptedChat(["The answer is strawberries and cream.", "Cats eat fish."])
    models = Models(count_tokens, chat=chat)
    [found] = Modelled(copy, QUESTION, models, extractive(pair))([pair])
    assert (texts(found.kept), found.how, found.usage.calls) == (["Cats eat fish."], "copy", 2)
    assert "word for word" in chat.asked[1].messages[-1].text


def test_none_means_none() -> None:
    assert copied("NONE") == ([], 0, "copy")


@given(
    st.lists(st.sampled_from(["Cats eat fish.", "It purrs.", "Lies are told.", "Host", "fish", "purrs. Mice", "\n"]))
)
def test_only_sentences_of_the_pair_are_copied(parts: list[str]) -> None:
    pair = make()
    (found,) = modelled([" ".join(parts) or "x"], pair, copy)([pair])
    assert set(found.kept) <= {*pair.host.content, *pair.source.content}
    assert found.unsupported <= len(json.dumps(parts))
