"""Clients of endpoints: one per event loop, with limits on the time and size of answers."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.errors import ModelError
from mergewise.models import clients
from mergewise.models.clients import PerLoop, each_in_time, in_time, size_limits

httpx = pytest.importorskip("httpx2", exc_type=ImportError)


class Body(httpx.AsyncByteStream):  # type: ignore[name-defined]
    """A body that arrives in pieces, and records that it was closed."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece

    async def aclose(self) -> None:
        self.closed = True


def read(pieces: Sequence[bytes], encoding: str | None = None, megabytes: int = 1) -> bytes:
    """Return the content that a client with these limits reads."""
    headers = {} if encoding is None else {"content-encoding": encoding}
    body = Body(pieces)

    async def get() -> bytes:
        response: Any = httpx.Response(200, headers=headers, stream=body)
        (bound,) = size_limits(megabytes)["event_hooks"]["response"]
        await bound(response)
        content = await response.aread()
        await response.aclose()
        return bytes(content)

    content = asyncio.run(get())
    assert body.closed
    return content


def split_bytes(content: bytes, size: int) -> list[bytes]:
    return [content[i : i + size] for i in range(0, len(content), size)]


@settings(max_examples=30)
@given(st.binary(max_size=300), st.integers(1, 40), st.sampled_from([None, "", "identity", "gzip", "x-gzip", " GZIP "]))
def test_an_answer_is_complete_for_any_encoding_and_piece_size(content: bytes, size: int, encoding: str | None) -> None:
    packed = gzip.compress(content) if "gzip" in (encoding or "").lower() else content
    assert read(split_bytes(packed, size), encoding) == content


def test_an_answer_may_be_compressed_by_zlib() -> None:
    assert read([zlib.compress(b"cats")], "gzip") == b"cats"


def test_a_compressed_answer_above_the_limit_is_refused() -> None:
    bomb = gzip.compress(b"0" * 1_000_001)
    assert len(bomb) < 5_000
    with pytest.raises(ModelError, match="at most 1 MB"):
        read([bomb], "gzip")
    assert len(read([gzip.compress(b"0" * 1_000_000)], "gzip")) == 1_000_000


def test_an_answer_above_the_limit_is_refused() -> None:
    piece = b"0" * 500_000
    assert len(read([piece, piece])) == 1_000_000
    with pytest.raises(ModelError, match="at most 1 MB"):
        read([piece, piece, b"0"])
    assert len(read([piece, piece, b"0"], megabytes=2)) == 1_000_001


@pytest.mark.parametrize("encoding", ["br", "gzip, br", "deflate", "x" * 100])
def test_an_unexpected_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(ModelError, match="unexpected content encoding") as refused:
        read([b"cats"], encoding)
    assert len(refused.value.message) < 120


def test_invalid_compression_is_refused() -> None:
    with pytest.raises(ModelError, match="invalid compression"):
        read([b"these are no packed cats"], "gzip")


# -- seconds


async def later(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "answer"


async def chunks(pauses: Sequence[float]) -> AsyncIterator[int]:
    for number, pause in enumerate(pauses):
        await asyncio.sleep(pause)
        yield number


async def collect_chunks(pauses: Sequence[float]) -> list[int]:
    return [chunk async for chunk in each_in_time("m", chunks(pauses))]


def test_an_answer_in_time_is_returned() -> None:
    assert asyncio.run(in_time("m", later(0))) == "answer"
    assert asyncio.run(collect_chunks([0, 0, 0])) == [0, 1, 2]
    assert asyncio.run(collect_chunks([])) == []


def test_an_answer_that_takes_too_long_is_a_model_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LONGEST", 0.01)
    with pytest.raises(ModelError, match=r"answer of m not complete after 0\.01 seconds"):
        asyncio.run(in_time("m", later(5)))
    with pytest.raises(ModelError, match="answer of m not complete"):
        asyncio.run(collect_chunks([0, 5]))


def test_a_timeout_of_the_caller_is_not_translated() -> None:
    async def impatient() -> str:
        async with asyncio.timeout(0.005):
            return await later(5)

    with pytest.raises(TimeoutError):
        asyncio.run(in_time("m", impatient()))


# -- loops


class Client:
    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


def test_each_loop_has_its_own_client_and_closes_it() -> None:
    made: list[Client] = []

    def make() -> Client:
        made.append(Client())
        return made[-1]

    of_loop = PerLoop(make)

    async def use(closes: bool) -> None:
        assert of_loop.here() is of_loop.here() is made[-1]
        if closes:
            await of_loop.aclose()
            await of_loop.aclose()

    asyncio.run(use(True))
    assert (len(made), made[0].closed) == (1, 1)
    asyncio.run(use(False))
    assert len(made) == 2
    assert made[1].closed == 0
