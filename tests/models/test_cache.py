from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mergewise.concurrency import run
from mergewise.errors import ModelError, UsageError
from mergewise.models.cache import FILE, CachedChat
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.types import Message, Reply, Usage

QUESTION = [Message("user", "What do cats eat?")]


def test_the_second_call_is_answered_from_the_cache(tmp_path: Path) -> None:
    chat = ScriptedChat(["fish", "milk"])
    cached = CachedChat(chat, tmp_path / "new" / "cache")
    first = run(cached.complete(QUESTION))
    assert first == Reply("fish", Usage(1, 5, 1))
    again = CachedChat(chat, tmp_path / "new" / "cache")
    assert run(again.complete(QUESTION)) == Reply("fish", Usage(1, 5, 1, False, 0, 1, 5, 1))
    assert len(chat.asked) == 1
    assert (again.spec, again.window, again.identity) == (chat.spec, chat.window, chat.identity)


def test_equal_calls_at_the_same_time_are_made_once(tmp_path: Path) -> None:
    chat = ScriptedChat(["fish", "milk"])
    cached = CachedChat(chat, tmp_path)

    async def both() -> list[Reply]:
        return list(await asyncio.gather(cached.complete(QUESTION), cached.complete(QUESTION)))

    replies = run(both())
    assert [reply.text for reply in replies] == ["fish", "fish"] and len(chat.asked) == 1
    spent = replies[0].usage + replies[1].usage
    assert (spent.calls, spent.paid) == (2, Usage(1, 5, 1))
    assert spent.cost(1_000_000, 0) == 5


def test_everything_that_changes_the_answer_is_in_the_key(tmp_path: Path) -> None:
    chat = ScriptedChat([str(i) for i in range(9)])
    cached = CachedChat(chat, tmp_path)
    other = CachedChat(ScriptedChat(["other"], spec="other"), tmp_path)
    asked = [
        run(cached.complete(QUESTION)),
        run(cached.complete([Message("system", QUESTION[0].text)])),
        run(cached.complete([*QUESTION, *QUESTION])),
        run(cached.complete([Message("user", "What do cats")])),
        run(cached.complete(QUESTION, max_tokens=9)),
        run(cached.complete(QUESTION, schema={})),
        run(cached.complete(QUESTION, schema={"type": "object"})),
        run(other.complete(QUESTION)),
    ]
    assert [reply.text for reply in asked] == [*"0123456", "other"]
    assert run(cached.complete(QUESTION)).text == "0"
    assert run(cached.complete(QUESTION, schema={"type": "object"})).text == "6"


def test_streams_share_the_cache_with_plain_calls(tmp_path: Path) -> None:
    chat = ScriptedChat(["Cats eat fish."])
    cached = CachedChat(chat, tmp_path)

    async def collect() -> list[str | Reply]:
        return [piece async for piece in cached.stream(QUESTION)]

    fresh, kept = run(collect()), run(collect())
    assert len(fresh) > 3 and kept == ["Cats eat fish.", Reply("Cats eat fish.", Usage(1, 5, 4, False, 0, 1, 5, 4))]
    assert run(cached.complete(QUESTION)).text == "Cats eat fish."
    assert len(chat.asked) == 1


def test_failures_are_not_cached_and_the_completeness_is(tmp_path: Path) -> None:
    cached = CachedChat(ScriptedChat([Turn(status=500), "one two three"]), tmp_path)
    with pytest.raises(ModelError):
        run(cached.complete(QUESTION, max_tokens=2))
    for _ in range(2):
        reply = run(cached.complete(QUESTION, max_tokens=2))
        assert (reply.text, reply.complete) == ("one two ", False)


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_an_empty_answer_is_not_cached(tmp_path: Path, nothing: str) -> None:
    chat = ScriptedChat([nothing, nothing, "fish", "milk"])
    cached = CachedChat(chat, tmp_path)

    async def stream() -> Reply:
        reply = [piece async for piece in cached.stream(QUESTION)][-1]
        assert isinstance(reply, Reply)
        return reply

    assert [run(cached.complete(QUESTION)).text, run(stream()).text] == [nothing, nothing]
    assert [run(cached.complete(QUESTION)).text for _ in range(2)] == ["fish", "fish"]
    assert len(chat.asked) == 3


WRITER = """
import sys
from mergewise.concurrency import run
from mergewise.models.cache import CachedChat
from mergewise.models.scripted import ScriptedChat
from mergewise.types import Message
chat = CachedChat(ScriptedChat(lambda messages: "answer to " + messages[0].text), sys.argv[1])
print("ready", flush=True)
for i in range(int(sys.argv[2])):
    text = run(chat.complete([Message("user", f"question {i}")])).text
    assert text == f"answer to question {i}", text
"""


def start_writer(directory: Path, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(directory), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_share_a_directory_and_survive_kills(tmp_path: Path) -> None:
    victim = start_writer(tmp_path, 1_000_000)
    assert victim.stdout is not None and victim.stdout.readline() == "ready\n"
    writers = [start_writer(tmp_path, 60) for _ in range(2)]
    time.sleep(0.5)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    for writer in writers:
        _, error = writer.communicate(timeout=120)
        assert writer.returncode == 0, error
    chat = ScriptedChat(["new"])
    cached = CachedChat(chat, tmp_path)
    for i in range(60):
        assert run(cached.complete([Message("user", f"question {i}")])).text == f"answer to question {i}"
    assert chat.asked == []


def test_many_processes_can_start_at_the_same_time(tmp_path: Path) -> None:
    for number in range(3):
        writers = [start_writer(tmp_path / str(number), 5) for _ in range(3)]
        for writer in writers:
            _, error = writer.communicate(timeout=120)
            assert writer.returncode == 0, error


def test_an_invalid_directory_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 100)
    with pytest.raises(UsageError, match="delete it"):
        CachedChat(ScriptedChat(["x"]), tmp_path)
    with pytest.raises(UsageError, match="as a cache"):
        CachedChat(ScriptedChat(["x"]), tmp_path / FILE)
