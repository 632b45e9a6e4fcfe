"""Prompts by a chat template, and loading of networks, with fake tokenizers and packages instead of models."""

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
END = 1  # the token at the end of a turn


class Tokenizer:
    """A fake tokenizer with code points as tokens, and `<end>` as a special token. Its template may reject a system message."""

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


def test_only_the_template_has_special_tokens() -> None:
    ids = prompt_ids(Tokenizer(), [SYSTEM, FIRST, REPLY, LAST])
    assert text_of(ids) == "[system]Be <end> brief.|[user]Who?|[assistant]Ada.|[user]Why <end>?|[assistant]"


def test_a_system_message_is_joined_with_the_first_question_if_the_template_rejects_it() -> None:
    ids = prompt_ids(Tokenizer(knows_system=False), [SYSTEM, FIRST, REPLY, LAST])
    assert text_of(ids) == "[user]Be <end> brief.\n\nWho?|[assistant]Ada.|[user]Why <end>?|[assistant]"
    for messages in ([SYSTEM], [FIRST, LAST]):
        with pytest.raises(ValueError, match=r"no system message|alternate"):
            prompt_ids(Tokenizer(knows_system=False), messages)


def test_the_template_is_rendered_with_a_generation_prompt_and_without_thinking() -> None:
    tokenizer = Tokenizer()
    prompt_ids(tokenizer, [FIRST])
    assert tokenizer.options == [{"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}]


class BlankBefore(Tokenizer):
    """A fake tokenizer that adds a blank before each text, like those of SentencePiece."""

    def __call__(self, text: str, add_special_tokens: bool, split_special_tokens: bool = False) -> dict[str, list[int]]:
        ids = super().__call__(text, add_special_tokens, split_special_tokens)["input_ids"]
        return {"input_ids": [ord(" "), *ids]}


def test_no_blank_is_added_before_a_message() -> None:
    ids = prompt_ids(BlankBefore(), [SYSTEM, FIRST])
    assert text_of(ids) == " [system]Be <end> brief.|[user]Who?|[assistant]"


def test_a_text_that_merges_with_the_token_before_it_is_tokenised_alone() -> None:
    class Joining(Tokenizer):
        def __call__(self, text: str, add_special_tokens: bool, split_special_tokens: bool = False) -> dict[str, Any]:
            return super().__call__(text.replace("\n\n", "\v"), add_special_tokens, split_special_tokens)

    assert text_of(prompt_ids(Joining(), [Message("user", "\nWho?")])) == "[user]\nWho?|[assistant]"


@pytest.mark.parametrize("begin", [None, 7])
def test_without_a_template_the_texts_are_joined_by_blank_lines(begin: int | None) -> None:
    tokenizer = Tokenizer()
    tokenizer.chat_template, tokenizer.bos_token_id = None, begin
    ids = prompt_ids(tokenizer, [SYSTEM, FIRST])
    assert ids[: len(ids) - len(text := f"{SYSTEM.text}\n\nWho?\n\n{PLAIN_ANSWER}")] == (
        [] if begin is None else [begin]
    )
    assert text_of(ids[-len(text) :]) == text


def test_the_default_format_of_a_network_depends_on_device_and_file(
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
