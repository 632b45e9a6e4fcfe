"""Messages as the tokens of a prompt, by the chat template of a tokenizer.

A document may hold the text of a special token, such as the one that ends a turn. So the template is filled with place holders
first, and what the messages say is tokenised apart, as plain text: only the template itself can bring special tokens.
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
    """The tokens of a text in which nothing is special."""
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def prompt_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """The tokens after which the model answers. Without a chat template: the texts, and a line that asks for the answer."""
    if getattr(tokenizer, "chat_template", None) is None:
        text = "\n\n".join([*(message.text for message in messages), PLAIN_ANSWER])
        begin = tokenizer.bos_token_id
        return [*([] if begin is None else [int(begin)]), *plain_ids(tokenizer, text)]
    ids: list[int] = []
    for number, part in enumerate(_PLACE.split(_fill_template(tokenizer, messages))):
        if number % 2:
            ids += _ids_behind(partial(plain_ids, tokenizer), messages[int(part)].text)
        elif part:
            template = partial(_template_ids, tokenizer)
            ids += _ids_behind(template, part) if number else template(part)
    return ids


def _template_ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _ids_behind(tokenize: Callable[[str], list[int]], text: str) -> list[int]:
    """The tokens of a text in the middle of another one: many tokenizers put a blank before whatever a text begins with."""
    before, both = tokenize(_BEFORE), tokenize(_BEFORE + text)
    return both[len(before) :] if both[: len(before)] == before else tokenize(text)


def _fill_template(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The template with place holders. A template that knows no system message gets it as part of the first question."""
    turns = [{"role": message.role, "content": _HELD.format(i)} for i, message in enumerate(messages)]
    try:
        return _render(tokenizer, turns)
    # templates raise what they like, jinja2's errors among them
    except Exception:
        if len(turns) < 2 or turns[0]["role"] != "system":
            raise
        joined = {"role": turns[1]["role"], "content": f"{turns[0]['content']}\n\n{turns[1]['content']}"}
        return _render(tokenizer, [joined, *turns[2:]])


def _render(tokenizer: Any, turns: Sequence[dict[str, str]]) -> str:
    """`enable_thinking` is what Qwen's templates ask for; others pass it over."""
    return str(
        tokenizer.apply_chat_template(list(turns), tokenize=False, add_generation_prompt=True, enable_thinking=False)
    )
