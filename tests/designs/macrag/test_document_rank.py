from __future__ import annotations

import pytest

from mergewise.designs.macrag.strategy import by_chat
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat
from mergewise.models.tokens import count_tokens

EXCERPTS = {"a": "Cats eat fish.", "b": "Dogs bark.", "c": "Fish swim.", "d": "Rain falls."}


def ranked(answer: str) -> list[str]:
    ranks, usage = by_chat("What do cats eat?", EXCERPTS, Models(count_tokens, chat=ScriptedChat([answer])))
    assert usage.calls == 1 and all(0 < rank <= 1 for rank in ranks.values())
    return sorted(ranks, key=lambda doc: -ranks[doc])


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ('{"ranking": [3, 1, 4, 2]}', "cadb"),
        ('{"ranking": [3]}', "cabd"),
        ('{"ranking": [9, 2, 0, -1, 2, true, "1"]}', "bacd"),
        ('{"order": [3]}', "abcd"),
        ("I cannot say.", "abcd"),
        ("[" * 3000, "abcd"),
        ('{"ranking": ' * 3000, "abcd"),
        ('{"ranking": [' + "[" * 3000 + "]" * 3000 + "]}", "abcd"),
    ],
)
def test_named_documents_come_first_and_the_others_keep_their_order(answer: str, order: str) -> None:
    assert ranked(answer) == list(order)


def test_ranks_fall_evenly_from_one() -> None:
    chat = ScriptedChat(['{"ranking": [2, 1, 3, 4]}'])
    ranks, _ = by_chat("q", EXCERPTS, Models(count_tokens, chat=chat))
    assert ranks == {"b": 1.0, "a": 0.75, "c": 0.5, "d": 0.25}
    assert all(text in chat.asked[0].text for text in EXCERPTS.values())


def test_the_error_without_a_chat_model_names_the_option() -> None:
    with pytest.raises(UsageError, match="--chat"):
        by_chat("q", EXCERPTS, Models(count_tokens))
