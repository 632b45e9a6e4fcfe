"""Conversion of messages to the tokens of a prompt, by the chat template of a tokenizer.

A document may contain the text of a special token, such as the end of a turn. So the template is first filled with placeholders,
and the texts of messages are tokenised separately as plain text. Only the template itself can produce special tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mergewise.types import Message

PLAIN_ANSWER = "### Answer:\n"
_HELD = "\ue000{}\ue001"
_PLACE = re.compile("\ue000(\\d+)\ue001")
_BEFORE = "\n"


def plain_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of a text, with special tokens treated as plain text."""
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def prompt_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Return the tokens of a prompt. Without a chat template it is the texts and a line that asks for the answer."""
    if getattr(tokenizer, "chat_template", None) is None:
        text = "\n\n".join([*(message.text for message in messages), PLAIN_ANSWER])
        begin = tokenizer.bos_token_id
        return [*([] if begin is None else [int(begin)]), *plain_ids(tokenizer, text)]
    ids: list[int] = []
    for number, part in enumerate(_PLACE.split(_fill_template(tokenizer, messages))):
        if number % 2:
            ids += _ids_behind(partial(plain_ids, tokenizer), messages[int(part)].text)
        elif part:

            def template(text: str) -> list[int]:
                return list(tokenizer(text, add_special_tokens=False)["input_ids"])

            ids += _ids_behind(template, part) if number else template(part)
    return ids


def _ids_behind(tokenize: Callable[[str], list[int]], text: str) -> list[int]:
    """Return the tokens of a text inside another text, without the blank that many tokenizers add at the beginning."""
    before, both = tokenize(_BEFORE), tokenize(_BEFORE + text)
    return both[len(before) :] if both[: len(before)] == before else tokenize(text)


def _fill_template(tokenizer: Any, messages: Sequence[Message]) -> str:
    """Fill the template with placeholders. If it rejects a system message, join that with the first question."""
    turns = [{"role": message.role, "content": _HELD.format(i)} for i, message in enumerate(messages)]
    try:
        return _render(tokenizer, turns)
    # templates may raise any error, including those of jinja2
    except Exception:
        if len(turns) < 2 or turns[0]["role"] != "system":
            raise
        joined = {"role": turns[1]["role"], "content": f"{turns[0]['content']}\n\n{turns[1]['content']}"}
        return _render(tokenizer, [joined, *turns[2:]])


def _render(tokenizer: Any, turns: Sequence[dict[str, str]]) -> str:
    """Render the template without thinking. `enable_thinking` is an option of Qwen's templates, and others ignore it."""
    return str(
        tokenizer.apply_chat_template(list(turns), tokenize=False, add_generation_prompt=True, enable_thinking=False)
    )
