"""The modes of one stream, by rule-based causal and chat models: prompts, texts and citations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mergewise.designs import MODES
from mergewise.designs.aed.ensemble.prompts import knows_nothing, says_nothing
from mergewise.designs.aed.streams import Ensemble
from mergewise.designs.modes import answer, answer_all, mode_for
from mergewise.errors import ModelError, UsageError
from mergewise.generate.mode import CHAT, Request
from mergewise.models.record import Models
from mergewise.models.scripted_causal import ScriptedCausal
from mergewise.models.tokens import count_tokens
from tests.designs.aed.test_ensemble import (
    BIRTH,
    PASSAGES,
    QUESTION,
    WORK,
    Chat,
    Utilities,
    context,
    request,
    speaker,
    stream_of,
    streams_of,
)


def kind(prompt: str) -> str:
    if "Sum up" in prompt:
        return "summing"
    if "hundred words" in prompt:
        return "background"
    return "summary" if " summary\n" in prompt else "sources" if " source [" in prompt else "alone"


def scripted_answer(prompt: str) -> str:
    said = {"summing": "Ada Brix was born in Delft.", "summary": "Delft", "sources": "Delft", "alone": "Rome"}
    return said[kind(prompt)]


EMPTY = replace(context(None), passages=(), text="")


@pytest.mark.parametrize("by", ["causal", "chat"])
def test_short_reads_all_passages_in_one_prompt(by: str) -> None:
    causal, chat = speaker(scripted_answer), Chat(scripted_answer)
    models = {"causal": causal} if by == "causal" else {"causal": None, "chat": chat}
    found = answer("short", request(**models, ensemble=None))
    assert (found.text, found.mode, found.found, found.streams) == ("Delft [1]", "short", True, None)
    assert [(citation.number, citation.text) for citation in found.citations] == [(1, BIRTH)]
    (prompt,) = causal.started if by == "causal" else chat.asked
    assert prompt.index(BIRTH) < prompt.index(WORK) < prompt.index(QUESTION)
    alone = answer("short", replace(request(**models), context=EMPTY))
    assert (alone.text, alone.citations, alone.found) == ("Rome", (), True)
    naive = answer("naive", replace(request(**models), context=EMPTY))
    assert replace(naive, mode="short") == alone
    assert kind((causal.started if by == "causal" else chat.asked)[-1]) == "alone"


@pytest.mark.parametrize("by", ["causal", "chat"])
def test_recomp_reads_a_summary(by: str) -> None:
    causal, chat = speaker(scripted_answer), Chat(scripted_answer)
    models = {"causal": causal} if by == "causal" else {"causal": None, "chat": chat}
    found = answer("recomp", request(**models))
    assert (found.text, found.trace[0].reason) == ("Delft [1]", "Ada Brix was born in Delft.")
    assert [citation.text for citation in found.citations] == [BIRTH]  # from the source, not from the summary
    first, second = causal.started if by == "causal" else chat.asked
    assert kind(first) == "summing" and BIRTH in first and WORK in first
    assert kind(second) == "summary" and "Ada Brix was born in Delft." in second and WORK not in second
    expected = len(first) + len(second) if by == "causal" else 20
    assert found.usage.calls == 2 and found.usage.input_tokens == expected


@pytest.mark.parametrize("said", ["NONE", " none.", "**NONE**", " "])
def test_empty_summary_is_skipped(said: str) -> None:
    assert says_nothing(said) == (said != " none.")  # the prompt asks for capital letters
    if not says_nothing(said):
        return
    causal = speaker(lambda prompt: said if kind(prompt) == "summing" else scripted_answer(prompt))
    found = answer("recomp", request(causal))
    assert (found.text, found.citations) == ("Rome", ())
    assert "nothing in the passages helps" in found.trace[0].reason
    assert [kind(prompt) for prompt in causal.started] == ["summing", "alone"]


def test_summaries_with_content_are_not_empty() -> None:
    for said in ("NONE of the towers is old.", "Nonesuch Palace", "It is none."):
        assert not says_nothing(said), said


def with_models(request: Request, **models: object) -> Request:
    return replace(request, models=replace(request.models, **models))  # type: ignore[arg-type]


def test_batches_match_single_questions() -> None:
    contexts = [replace(context(None), question=f"Where was {name} born?") for name in ("Ada", "Brix", "Eve")]
    contexts[1] = replace(contexts[1], passages=(), text="")
    for mode in ("short", "naive", "recomp"):
        batched = speaker(scripted_answer)
        requests = [replace(request(batched), context=one) for one in contexts]
        together = answer_all(mode, requests)
        assert together == [answer(mode, with_models(one, causal=speaker(scripted_answer))) for one in requests]
        by_chat = [with_models(one, causal=None, chat=Chat(scripted_answer)) for one in requests]
        assert [one.text for one in answer_all(mode, by_chat)] == [one.text for one in together]
    assert answer_all("short", [replace(request(speaker(scripted_answer)), context=EMPTY)])[0].text == "Rome"


def test_passages_over_the_window_are_dropped() -> None:
    roomy, small = speaker(scripted_answer), speaker(scripted_answer)
    answer("short", request(roomy))
    small.window = len(roomy.started[0]) + 20
    found = answer("short", request(small, max_tokens=40))
    assert BIRTH in small.started[0] and WORK not in small.started[0]
    assert "1 passages do not fit" in found.trace[0].reason
    small.window = 300
    with pytest.raises(UsageError, match="no passage fits into the window"):
        answer("short", request(small))
    with pytest.raises(ModelError, match="empty answer from"):
        answer("short", request(speaker(lambda prompt: "")))


def test_modes_need_a_chat_model() -> None:
    for name in ("short", "naive", "recomp"):
        assert MODES[name].needs is CHAT
        with pytest.raises(UsageError, match="needs a chat model"):
            mode_for(name, Models(count_tokens))


# -- one prompt of the most useful (ensemble=false)

OTHERS = stream_of("triplets", (0.5, 2))


def together(causal: ScriptedCausal, n: int, background: float, memory: bool = True) -> str:
    """Return the prompt of a joint answer. The utilities of the passages are 1.5 and 0.5."""
    ensemble = Ensemble((PASSAGES, OTHERS), memory, together=n)
    found = answer("aed", request(causal, ensemble, predictor=Utilities(remember=background)))
    assert streams_of(found).weights == {"together": 1.0}
    assert found.text.startswith("Delft")
    prompt = causal.started[-1]
    worth = {BIRTH: 1.5, WORK: 0.5, "I remember": background}
    assert streams_of(found).utilities == {"together": max(worth[text] for text in worth if text in prompt)}
    return prompt


def says_background(prompt: str) -> str:
    return "I remember Rome." if kind(prompt) == "background" else "Delft"


@pytest.mark.parametrize(
    ("n", "background", "expected"),
    [
        (2, 1.0, [BIRTH, "I remember"]),
        (2, 2.0, ["I remember", BIRTH]),
        (2, 0.1, [BIRTH, WORK]),
        (1, 2.0, ["I remember"]),
        (1, 1.0, [BIRTH]),
        (3, 1.0, [BIRTH, "I remember", WORK]),
    ],
)
def test_gainrag_reads_the_most_useful_of_passages_and_background(
    n: int, background: float, expected: list[str]
) -> None:
    prompt = together(speaker(says_background), n, background)
    places = {text: prompt.find(text) for text in (BIRTH, WORK, "I remember")}
    shown = sorted((text for text in places if places[text] >= 0), key=lambda text: places[text])
    assert shown == expected


def test_background_of_na_is_not_a_candidate() -> None:
    assert knows_nothing("N/A")
    causal = speaker(lambda prompt: "N/A" if kind(prompt) == "background" else "Delft")
    prompt = together(causal, 2, 9.0)
    assert BIRTH in prompt and WORK in prompt and "N/A" not in prompt


def test_prompt_without_memory_is_reranked() -> None:
    causal = speaker(says_background)
    prompt = together(causal, 2, 9.0, memory=False)
    assert len(causal.started) == 1 and prompt.index(BIRTH) < prompt.index(WORK)
