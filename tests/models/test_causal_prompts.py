"""Prompts by a chat template and the loading of a network, with stand-ins for tokenizer and packages: no model is loaded here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mergewise.models.causal import loading
from mergewise.models.causal.prompts import PLAIN_ANSWER, prompt_ids
from mergewise.types import Message

SYSTEM, FIRST, REPLY, LAST = (
    Message("system", "Be <end> brief."),
    Message("user", "Who?"),
    Message("assistant", "Ada."),
    Message("user", "Why <end>?"),
)
END = 1  # the token that ends a turn


class Tokenizer:
    """Tokens are code points, but for `<end>` where special tokens are not split. Its template may refuse a system message."""

    chat_template: str | None = "by hand"
    bos_token_id: int | None = None

    def __init__(self, knows_system: bool = True) -> None:
        self.knows_system = knows_system
        self.options: list[dict[str, Any]] = []

    def __call__(self, text: str, add_special_tokens: bool, split_special_tokens: bool = False) -> dict[str, list[int]]:
        assert not add_special_tokens
        if not split_special_tokens:
            text = text.replace("<end>", chr(END))
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(self, turns: Sequence[dict[str, str]], **options: Any) -> str:
        self.options.append(options)
        if not self.knows_system and any(turn["role"] == "system" for turn in turns):
            raise ValueError("no system message")
        roles = [turn["role"] for turn in turns if turn["role"] != "system"]
        if roles != (["user", "assistant"] * len(roles))[: len(roles)]:
            raise ValueError("turns must alternate")
        return "".join(f"[{turn['role']}]{turn['content']}<end>" for turn in turns) + "[assistant]"


def text_of(ids: Sequence[int]) -> str:
    return "".join("|" if i == END else chr(i) for i in ids)


def test_only_the_template_brings_special_tokens() -> None:
    ids = prompt_ids(Tokenizer(), [SYSTEM, FIRST, REPLY, LAST])
    assert text_of(ids) == "[system]Be <end> brief.|[user]Who?|[assistant]Ada.|[user]Why <end>?|[assistant]"


def test_a_template_without_system_messages_gets_it_with_the_first_question_and_the_rest_as_it_is() -> None:
    ids = prompt_ids(Tokenizer(knows_system=False), [SYSTEM, FIRST, REPLY, LAST])
    assert text_of(ids) == "[user]Be <end> brief.\n\nWho?|[assistant]Ada.|[user]Why <end>?|[assistant]"
    for messages in ([SYSTEM], [FIRST, LAST]):
        with pytest.raises(ValueError, match=r"no system message|alternate"):
            prompt_ids(Tokenizer(knows_system=False), messages)


def test_the_template_is_asked_for_text_that_the_model_goes_on_with_and_for_no_thinking() -> None:
    tokenizer = Tokenizer()
    prompt_ids(tokenizer, [FIRST])
    assert tokenizer.options == [{"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}]


class BlankBefore(Tokenizer):
    """Puts a blank before whatever a text begins with, as SentencePiece's tokenizers do."""

    def __call__(self, text: str, add_special_tokens: bool, split_special_tokens: bool = False) -> dict[str, list[int]]:
        ids = super().__call__(text, add_special_tokens, split_special_tokens)["input_ids"]
        return {"input_ids": [ord(" "), *ids]}


def test_no_blank_comes_between_the_template_and_what_a_message_says() -> None:
    ids = prompt_ids(BlankBefore(), [SYSTEM, FIRST])
    assert text_of(ids) == " [system]Be <end> brief.|[user]Who?|[assistant]"


def test_a_text_whose_beginning_joins_with_what_stands_before_it_is_tokenised_alone() -> None:
    class Joining(Tokenizer):
        def __call__(self, text: str, add_special_tokens: bool, split_special_tokens: bool = False) -> dict[str, Any]:
            return super().__call__(text.replace("\n\n", "\v"), add_special_tokens, split_special_tokens)

    assert text_of(prompt_ids(Joining(), [Message("user", "\nWho?")])) == "[user]\nWho?|[assistant]"


@pytest.mark.parametrize("begin", [None, 7])
def test_without_a_template_the_texts_stand_below_each_other(begin: int | None) -> None:
    tokenizer = Tokenizer()
    tokenizer.chat_template, tokenizer.bos_token_id = None, begin
    ids = prompt_ids(tokenizer, [SYSTEM, FIRST])
    assert ids[: len(ids) - len(text := f"{SYSTEM.text}\n\nWho?\n\n{PLAIN_ANSWER}")] == (
        [] if begin is None else [begin]
    )
    assert text_of(ids[-len(text) :]) == text


def test_the_format_of_a_network_is_that_of_its_device_and_a_gguf_file_has_none_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    formats = {name: f"torch.{name}" for name in loading.DTYPES}
    asked: list[object] = []
    monkeypatch.setattr(loading, "torch_module", lambda: SimpleNamespace(**formats))
    monkeypatch.setattr(loading, "_load", lambda name, kind, **options: asked.append(options["dtype"]))
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    for name in (str(tmp_path), str(file)):
        for device, dtype in (("cpu", None), ("cuda", None), ("cuda", "float16")):
            loading.load_network(name, device, dtype)
    assert asked == [*("torch.float32", "auto", "torch.float16"), *("torch.float32", "torch.bfloat16", "torch.float16")]
