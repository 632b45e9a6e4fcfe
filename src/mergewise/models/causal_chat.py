"""Chat model `hf:PATH`: a causal model that answers messages greedily. Its `causal` model also gives next-token probabilities."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from mergewise.concurrency import in_thread
from mergewise.models.decoding import ShowPiece, decode_each
from mergewise.protocols import CausalModel, Schema
from mergewise.types import Message, Reply, Usage


class CausalChat:
    """A `ChatModel` by a causal model. It does not enforce a JSON schema. Concurrent calls take turns, token by token."""

    def __init__(self, causal: CausalModel, window: int | None = None) -> None:
        self.causal = causal
        self.spec = causal.spec
        self.identity = f"{causal.spec} greedy"
        self.window = causal.window if window is None else min(window, causal.window)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the network, so that each worker process loads the model once."""
        return CausalChat, (self.causal, self.window)

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        return await in_thread(self._answer, messages, max_tokens)

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def show(_: int, piece: str) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        work = asyncio.ensure_future(in_thread(self._answer, messages, max_tokens, show))
        work.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield await work
        finally:
            work.cancel()

    def _answer(self, messages: Sequence[Message], max_tokens: int, show: ShowPiece | None = None) -> Reply:
        (said,) = decode_each(self.causal, [messages], max_tokens, show)
        return Reply(said.text, Usage(1, said.input_tokens, len(said.tokens)), said.complete)
