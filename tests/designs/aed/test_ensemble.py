"""Answers of several streams by rule-based causal models: prompts, weights, texts and citations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from math import exp

import pytest

from mergewise.designs import MODES
from mergewise.designs.aed.ensemble.answering import finish_answer
from mergewise.designs.aed.ensemble.prompts import knows_nothing
from mergewise.designs.aed.ensemble.reading import ModelWindow, StreamedQuestion, StreamPrompt
from mergewise.designs.aed.streams import Ensemble, Stream, StreamUnit, StreamWeights, weights_of
from mergewise.designs.modes import answer, answer_all, mode_for
from mergewise.errors import ModelError, UsageError
from mergewise.generate.marks import MarkFilter
from mergewise.generate.mode import Request
from mergewise.generate.sources import Source, base_sources
from mergewise.jsonable import answer_json
from mergewise.models.decoding import Decoded
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat
from mergewise.models.scripted_causal import ScriptedCausal
from mergewise.models.tokens import count_tokens
from mergewise.types import Answer, Context, Document, Message, Passage, Reply, Span, Usage

ALPHABET = "".join(map(chr, range(32, 127))) + "\n"
QUESTION = "Where was Ada Brix born?"
BIRTH = "Ada Brix was born in Delft."
WORK = "Ada Brix built the Quonset lamp. It was sold in Paris."
DOCUMENTS = {"people": Document("people", f"She is old. {BIRTH}", "People"), "lamps": Document("lamps", WORK, "Lamps")}
CODE = re.compile(r"#[0-9a-f]{8}")


def speaker(says: Callable[[str], str], sure: float = 1e6) -> ScriptedCausal:
    """Return a model that answers each prompt by the function, and then ends with a line break."""

    def rule(text: str) -> Mapping[str, float]:
        question = text.rindex("Question: ")
        end = text.index("?", question) + 1
        prompt, said = text[:end], text[end:]
        whole = says(prompt) + "\n"
        return {whole[len(said)]: sure} if whole.startswith(said) and len(said) < len(whole) else {"\n": sure}

    return ScriptedCausal(ALPHABET, rule, end="\n", window=6000)


def kind(prompt: str) -> str:
    if "hundred words" in prompt:
        return "background"
    return "memory" if " background\n" in prompt else "sources"


def stream_of(name: str, *units: tuple[float, *tuple[int, ...]], beta: float = 0.5) -> Stream:
    """Build a stream. Each unit is a utility and the numbers of its passages."""
    return Stream(name, tuple(StreamUnit(utility, tuple(numbers)) for utility, *numbers in units), beta)


class Utilities:
    """A predictor that scores a text by the words in it."""

    spec = "words"

    def __init__(self, **worth: float) -> None:
        self.worth = worth
        self.asked: list[str] = []

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        self.asked += texts
        return [next((value for word, value in self.worth.items() if word in text), 0.0) for text in texts]


def context(ensemble: Ensemble | None) -> Context:
    passages = (
        Passage(BIRTH, 0.9, (Span("people", 12, 12 + len(BIRTH)),), title="People"),
        Passage(WORK, 0.4, (Span("lamps", 0, len(WORK)),), title="Lamps"),
    )
    return Context(QUESTION, "aed", 200, "\n\n".join(p.text for p in passages), 40, passages, reading=ensemble)


def streams_of(found: Answer) -> StreamWeights:
    assert isinstance(found.streams, StreamWeights)
    return found.streams


def of_triplets() -> Context:
    """Return a context with a triplet set as its second passage: written, with the span of its source sentence."""
    whole = context(Ensemble((stream_of("passages", (0.5, 1)), stream_of("triplets", (1.5, 2))), memory=False))
    lamps = Passage(WORK, 0.4, (Span("lamps", 0, len(WORK)),), title="Lamps")
    sentence = Span("people", 12, 12 + len(BIRTH))
    triplets = Passage("Ada Brix | born in | Delft", 0.9, (sentence,), False, "People")
    return replace(whole, passages=(lamps, triplets))


PASSAGES = stream_of("passages", (1.5, 1))
OTHERS = stream_of("triplets", (0.5, 2))


BOTH = Ensemble((PASSAGES, OTHERS))


def request(causal: ScriptedCausal | None, ensemble: Ensemble | None = BOTH, **options: object) -> Request:
    """Build a request. Options are fields of `Models` or of `Request`."""
    given = {"predictor": Utilities(remember=1.0), "chat": ScriptedChat([]), "causal": causal, **options}
    names = {field.name for field in fields(Models)}
    models = Models(count_tokens, **{name: given.pop(name) for name in names & given.keys()})  # type: ignore[arg-type]
    return Request(context(ensemble), DOCUMENTS.get, models, **{"max_tokens": 40, **given})  # type: ignore[arg-type]


def scripted_answer(prompt: str) -> str:
    return {"background": "I remember Rome.", "memory": "Rome", "sources": "Delft"}[kind(prompt)]


def test_triplets_are_read_as_written_and_cited_by_their_sentence() -> None:
    causal = speaker(scripted_answer)
    found = answer("aed", replace(request(causal), context=of_triplets()))
    assert found.text == "Delft [2]"
    assert [(c.number, c.text, c.span) for c in found.citations] == [(2, BIRTH, Span("people", 12, 12 + len(BIRTH)))]
    first, second = causal.started
    assert WORK in first and "Ada Brix | born in | Delft" in second and BIRTH not in second
    assert set(streams_of(found).weights) == {"passages", "triplets"}


def test_three_streams_are_weighted_and_decoded_together() -> None:
    causal = speaker(scripted_answer)
    found = answer("aed", request(causal))
    assert (found.text, found.mode, found.found, found.complete) == ("Delft [1]", "aed", True, True)
    assert [(c.number, c.text, c.title) for c in found.citations] == [(1, BIRTH, "People")]
    streams = streams_of(found)
    assert streams.utilities == {"passages": 1.5, "triplets": 0.5, "memory": 1.0}
    whole = exp(1.5) + exp(0.5) + exp(1.0)
    assert streams.weights == pytest.approx(
        {"passages": exp(1.5) / whole, "triplets": exp(0.5) / whole, "memory": exp(1) / whole}
    )
    assert "".join(token.text for token in streams.tokens) == "Delft"
    assert {token.stream for token in streams.tokens} <= {"passages", "triplets"}
    assert streams.tokens[0].agreement < 0.1  # one stream wants another city
    assert streams.tokens[0].log_probs["memory"] < -10 < streams.tokens[0].log_probs["passages"]
    shown = answer_json(found)["streams"]
    assert shown["weights"] == streams.weights and shown["utilities"] == streams.utilities
    assert [token["text"] for token in shown["tokens"]] == list("Delft")
    assert "streams" not in answer_json(replace(found, streams=None))
    own, first, second, memory = causal.started
    assert kind(own) == "background" and "Delft" not in own
    assert BIRTH in first and WORK not in first and WORK in second and BIRTH not in second
    assert "I remember Rome." in memory and BIRTH not in memory
    assert found.usage == Usage(2, len(own) + len(first) + len(second) + len(memory), len("I remember Rome.Delft"))
    assert [step.action for step in found.trace] == ["background", "weights"]


def test_quotations_have_a_code_that_no_text_contains() -> None:
    causal = speaker(lambda prompt: "#12345678 end" if kind(prompt) == "background" else "Delft")
    answer("aed", request(causal))
    for prompt in causal.started[1:]:
        codes = set(CODE.findall(prompt)) - {"#12345678"}
        assert len(codes) == 1 and "never\ninstructions" in prompt


@pytest.mark.parametrize("said", ["N/A", "n/a.", "  **N/A**", "N/A - I do not know this person.", " "])
def test_background_of_na_has_no_weight(said: str) -> None:
    assert knows_nothing(said)
    causal = speaker(lambda prompt: said if kind(prompt) == "background" else "Delft")
    found = answer("aed", request(causal))
    assert streams_of(found).weights["memory"] == 0
    assert sum(streams_of(found).weights.values()) == pytest.approx(1)
    assert set(streams_of(found).utilities) == {"passages", "triplets"}
    assert len(causal.started) == 3  # the background, and two streams
    assert "no weight" in found.trace[0].reason


def test_background_of_na_is_read_with_na() -> None:
    causal = speaker(lambda prompt: "N/A" if kind(prompt) == "background" else "Delft")
    found = answer("aed", request(causal, replace(BOTH, na=True), predictor=Utilities(**{"N/A": 1.0})))
    assert streams_of(found).utilities["memory"] == 1.0
    assert streams_of(found).weights["memory"] == pytest.approx(weights_of({"p": 1.5, "t": 0.5, "m": 1.0})["m"])
    silent = speaker(lambda prompt: "" if kind(prompt) == "background" else "Delft")
    found = answer("aed", request(silent, replace(BOTH, na=True)))
    assert streams_of(found).weights["memory"] == 0


def test_backgrounds_with_content_are_not_na() -> None:
    for said in ("Nairobi is a city.", "N/A is what one writes where nothing applies"[4:], "The n/a of it", "Ana"):
        assert not knows_nothing(said), said


def test_answers_from_the_background_have_no_citation() -> None:
    causal = speaker(lambda prompt: "I remember Rome." if kind(prompt) == "background" else "Rome")
    found = answer("aed", request(causal))
    assert (found.text, found.citations, found.found) == ("Rome", (), True)
    assert found.unverified == ("Rome",) and found.unsupported == 1


def test_marks_by_the_model_are_removed() -> None:
    shown: list[str] = []
    causal = speaker(lambda prompt: "N/A" if kind(prompt) == "background" else "In Delft [7] [2] ")
    found = answer("aed", request(causal, show=shown.append))
    assert (found.text, found.removed_marks) == ("In Delft [1]", 2)
    assert "".join(shown) == found.text and len(shown) > 3


def test_no_background_is_written_without_memory() -> None:
    causal = speaker(scripted_answer)
    found = answer("aed", request(causal, Ensemble((PASSAGES,), memory=False)))
    assert streams_of(found).weights == {"passages": 1.0}
    assert len(causal.started) == 1 and found.usage.calls == 1


def test_one_stream_is_ordinary_decoding() -> None:
    """The utility of the only stream does not matter."""
    causal = speaker(scripted_answer)
    found = answer("aed", request(causal, Ensemble((stream_of("passages", (-40.0, 1)),), memory=False)))
    assert found.text == "Delft [1]"
    assert all(token.agreement == pytest.approx(1) for token in streams_of(found).tokens)


def test_a_context_of_another_strategy_is_one_stream() -> None:
    causal = speaker(scripted_answer)
    predictor = Utilities(Delft=2.0, Paris=1.0, remember=0.5)
    found = answer("aed", request(causal, None, predictor=predictor))
    assert streams_of(found).utilities == {"passages": 2.5, "memory": 0.5}  # 2 + 0.5 * 1
    assert BIRTH in causal.started[1] and WORK in causal.started[1]
    assert causal.started[1].index(BIRTH) < causal.started[1].index(WORK)


def test_batches_match_single_questions() -> None:
    requests = [request(speaker(scripted_answer))] * 3
    other = replace(requests[0].context, passages=requests[0].context.passages[1:], reading=None)
    requests[1] = replace(requests[1], context=other)
    requests.append(replace(requests[0], context=replace(other, passages=())))
    for mode in ("aed", "replug"):
        together = answer_all(mode, requests)
        assert together == [answer(mode, one) for one in requests]
        assert [one.found for one in together] == [True, True, True, False]
        assert {one.mode for one in together} == {mode}
    batched = speaker(scripted_answer)
    contexts = [replace(requests[0].context, question=f"Where was {name} born?") for name in ("Ada", "Brix", "Eve")]
    answer_all(
        "aed",
        [
            replace(requests[0], models=replace(requests[0].models, causal=batched), context=context)
            for context in contexts
        ],
    )
    assert [kind(prompt) for prompt in batched.started[:3]] == ["background"] * 3


def test_equal_prompts_are_decoded_once() -> None:
    causal = speaker(scripted_answer)
    weights = [Ensemble((stream_of("passages", (utility, 1)), OTHERS)) for utility in (9.0, -9.0)]
    kept: dict[str, Decoded] = {}
    requests = [request(causal, ensemble, backgrounds=kept) for ensemble in weights]
    first, second = answer_all("aed", requests)
    assert [kind(prompt) for prompt in causal.started] == ["background", "sources", "sources", "memory"]
    assert streams_of(first).weights["passages"] > 0.99 > 0.01 > streams_of(second).weights["passages"]
    alone = [answer("aed", replace(one, backgrounds=None)) for one in requests]
    assert [first, second] == alone  # including their usage
    assert kept[QUESTION].text == "I remember Rome."
    causal.started.clear()
    assert answer("aed", requests[0]) == first
    assert "background" not in map(kind, causal.started)


def test_replug_reads_each_passage_separately() -> None:
    causal = speaker(lambda prompt: "Delft" if BIRTH in prompt else "Paris")
    found = answer("replug", request(causal, None))
    assert found.text == "Delft [1]" and len(causal.started) == 2
    assert streams_of(found).weights == pytest.approx(weights_of({"[1]": 0.9, "[2]": 0.4}))
    assert streams_of(found).tokens[0].stream == "[1]"


def test_replug_reads_the_best_ten_passages() -> None:
    passages = tuple(
        Passage(BIRTH, number / 100, (Span("people", 12, 12 + len(BIRTH)),), title=f"P{number}") for number in range(12)
    )
    given = request(speaker(scripted_answer), None)
    found = answer("replug", replace(given, context=replace(given.context, passages=passages)))
    assert set(streams_of(found).weights) == {f"[{number}]" for number in range(3, 13)}
    assert any("2 passages over the maximum of 10 streams" in step.reason for step in found.trace)


def test_least_useful_passages_are_dropped_if_not_all_fit() -> None:
    causal = speaker(scripted_answer)
    both = stream_of("passages", (1.5, 2), (1.0, 1))
    full = len(causal.prompt([])) or 0
    answer("aed", request(causal, Ensemble((both,), memory=False)))
    full = len(causal.started[0])
    causal = speaker(scripted_answer)
    causal.window = full + 39
    found = answer("aed", request(causal, Ensemble((both,), memory=False)))
    assert WORK in causal.started[0] and BIRTH not in causal.started[0]
    assert "1 passages of the stream passages do not fit" in found.trace[0].reason
    assert streams_of(found).utilities == {"passages": 1.5}
    causal.window = 120
    with pytest.raises(UsageError, match="no passage fits"):
        answer("aed", request(causal, Ensemble((both,), memory=False)))


def test_dropped_passages_do_not_count_for_the_weights() -> None:
    """Eq. 11 over the passages in the window: 3 instead of 3 + 0.5 * 3."""
    causal, both, memory = speaker(scripted_answer), stream_of("passages", (3.0, 2), (3.0, 1)), 4.0
    given = request(causal, Ensemble((both,)), predictor=Utilities(remember=memory))
    whole = answer("aed", given)
    assert streams_of(whole).utilities == {"passages": 4.5, "memory": memory}
    causal.window = max(map(len, causal.started)) + 39  # only the first still fits
    part = answer("aed", given)
    assert streams_of(part).utilities == {"passages": 3.0, "memory": memory}
    assert streams_of(part).weights == pytest.approx(weights_of({"passages": 3.0, "memory": memory}))
    assert streams_of(whole).weights["passages"] > 0.6 > 0.3 > streams_of(part).weights["passages"]
    assert both.within([1]).units == both.units[1:] and not both.within([3]).units


def test_two_candidates_in_one_passage_are_read_or_dropped_together() -> None:
    causal = speaker(scripted_answer)
    shared = stream_of("passages", (3.0, 1), (2.0, 1), (1.0, 2))
    found = answer("aed", request(causal, Ensemble((shared,), memory=False)))
    assert streams_of(found).utilities == {"passages": 3.0 + 0.5 * 2.0 + 0.25}
    causal.window = len(causal.started[0]) + 39
    found = answer("aed", request(causal, Ensemble((shared,), memory=False)))
    assert streams_of(found).utilities == {"passages": 3.0 + 0.5 * 2.0}


def test_empty_answer_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="empty answer from"):
        answer("aed", request(speaker(lambda _: "")))


def test_answers_cut_by_the_token_limit_are_incomplete() -> None:
    found = answer("aed", request(speaker(scripted_answer), max_tokens=3))
    assert (found.text[:3], found.complete) == ("Del", False)


# -- a chat model, without probabilities


class Chat:
    """A chat model that answers by the function and records its prompts."""

    spec, identity, window = "openai:some", "some", 4000

    def __init__(self, says: Callable[[str], str]) -> None:
        self.says = says
        self.asked: list[str] = []

    def _say(self, messages: Sequence[Message]) -> str:
        prompt = "".join(message.text for message in messages)
        self.asked.append(prompt)
        return self.says(prompt)

    async def complete(self, messages: Sequence[Message], *, max_tokens: int = 9, schema: object = None) -> Reply:
        return Reply(self._say(messages), Usage(1, 10, 2))

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 9):  # type: ignore[no-untyped-def]
        text = self._say(messages)
        for piece in text:
            yield piece
        yield Reply(text, Usage(1, 10, 2))


@pytest.mark.parametrize("shows", [False, True])
def test_a_chat_model_answers_from_the_most_useful_stream(shows: bool) -> None:
    chat, shown = Chat(scripted_answer), list[str]()
    found = answer("aed-best", request(None, chat=chat, show=shown.append if shows else None))
    assert (found.text, found.mode) == ("Delft [1]", "aed-best")
    assert len(chat.asked) == 2 and BIRTH in chat.asked[1] and WORK not in chat.asked[1]
    assert streams_of(found).tokens == ()
    assert streams_of(found).weights == {"passages": 1.0, "triplets": 0.0, "memory": 0.0}
    assert found.usage == Usage(2, 20, 4)
    assert "openai:some answers from the stream with the highest utility: passages" in [s.reason for s in found.trace]
    assert "".join(shown) == (found.text if shows else "")


def test_background_can_be_the_most_useful_stream() -> None:
    chat = Chat(scripted_answer)
    found = answer("aed-best", request(None, chat=chat, predictor=Utilities(remember=9.0)))
    assert (found.text, found.citations) == ("Rome", ()) and "I remember Rome." in chat.asked[1]


def test_modes_fall_back_without_their_models() -> None:
    causal, chat = speaker(scripted_answer), Chat(scripted_answer)
    none, both = Models(count_tokens), Models(count_tokens, chat=chat, causal=causal)
    chat_alone, causal_alone = replace(both, causal=None), replace(both, chat=None)
    assert mode_for(None, both, "aed") == "aed"
    assert mode_for(None, chat_alone, "aed") == "aed-best"
    assert mode_for(None, none, "aed") == "extractive"
    assert mode_for(None, both) == "r&b" and mode_for("replug", causal_alone) == "replug"
    for name in ("aed", "replug"):
        with pytest.raises(UsageError, match="needs a causal model") as error:
            mode_for(name, chat_alone)
        assert "--mode aed-best" in error.value.hint and "hf:PATH" in error.value.hint
    for mode in MODES.values():
        assert mode.otherwise in {"", *MODES}


# -- citations of short answers


def test_citations_prefer_the_sentence_with_words_of_the_question() -> None:
    text = "Delft has a market. Ada Brix was born in Delft. Delft is old."
    document = Document("d", text)
    whole = Context(QUESTION, "", 99, text, 9, (Passage(text, 1.0, (Span("d", 0, len(text)),)),))
    request = Request(whole, {"d": document}.get, Models(count_tokens))
    sources = base_sources(whole, request.document)

    def finished(text: str, sources: Sequence[Source]) -> Answer:
        question = StreamedQuestion(request, Ensemble(()), ModelWindow("scripted", 99, 9, len))
        question.readings = [StreamPrompt("passages", [], tuple(sources))]
        return finish_answer(question, text, Usage(), True, (), MarkFilter((), print))

    found = finished("Delft", sources)
    assert [citation.text for citation in found.citations] == ["Ada Brix was born in Delft."]
    assert found.text == "Delft [1]" and found.unsupported == 0
    nothing = finished("Madrid.", sources)
    assert (nothing.text, nothing.citations, nothing.unverified) == ("Madrid.", (), ("Madrid.",))
    empty = finished("Delft", [])
    assert (empty.text, empty.unsupported) == ("Delft", None)
