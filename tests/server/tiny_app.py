"""A minimal application for tests of the supervisor, with /readyz and slow streams."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mergewise.server.configuration import ServerConfig
from mergewise.server.state import State


def create_app(config: ServerConfig, state: State) -> Any:
    async def answer(send: Any, status: int, body: str) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": body.encode()})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        if scope["path"] == "/readyz":
            ready = not state.draining.is_set() and state.writer_is_alive()
            await answer(send, 200 if ready else 503, "ready" if ready else "not ready")
        elif scope["path"].startswith("/stream/"):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(int(10 * float(scope["path"].removeprefix("/stream/")))):
                await send({"type": "http.response.body", "body": b"piece ", "more_body": True})
                await asyncio.sleep(0.1)
            await send({"type": "http.response.body", "body": b"end"})
        else:
            await answer(send, 200, str(os.getpid()))

    return app
