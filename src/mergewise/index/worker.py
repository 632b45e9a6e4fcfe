"""The worker side of `index.executors`.

A local worker process reads requests from standard input, answers on standard output, and ends when its input ends. On a cluster,
a worker is an actor (`index.cluster`).
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import warnings
from queue import SimpleQueue
from threading import Thread
from typing import IO


class LogCollector(logging.Handler):
    """A handler that collects the log records of a process in a form that can be pickled."""

    def __init__(self, every: int, own: int) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        logging.basicConfig(level=every, handlers=[self], force=True)
        logging.getLogger("mergewise").setLevel(own)

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        self.records.append(record)


def main() -> None:
    # redirect standard output, because parsers may print to it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collector = LogCollector(int(sys.argv[1]), int(sys.argv[2]))
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        try:
            write_frame(answers, answer_to(requests.get(), collector))
        except OSError:
            # the reader has ended
            os._exit(1)


def _receive(stream: IO[bytes], requests: SimpleQueue[bytes]) -> None:
    """Queue requests while another one is processed, so that the sender never waits for long."""
    while (frame := read_frame(stream)) is not None:
        requests.put(frame)
    os._exit(0)


def answer_to(request: bytes, collector: LogCollector) -> bytes:
    """Return the pickled fields of a `WorkerAnswer`. An error outside the function, or in pickling, is a refusal."""
    try:
        function, item = pickle.loads(request)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                outcome = {"value": function(item)}
            except MemoryError:
                raise
            except Exception as error:
                outcome = {"error": error}
        logged, collector.records = tuple(collector.records), []
        warned = tuple((str(w.message), w.category, w.filename, w.lineno) for w in caught)
        answer = pickle.dumps({**outcome, "logged": logged, "warned": warned}, pickle.HIGHEST_PROTOCOL)
        if "error" in outcome:
            # some errors can be pickled but not unpickled
            pickle.loads(answer)
        return answer
    except Exception:
        collector.records = []
        return pickle.dumps({"is_refused": True})


# -- frames, in which both sides send messages


def write_frame(stream: IO[bytes], content: bytes) -> None:
    stream.write(len(content).to_bytes(8, "little"))
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Read the next frame. Return None at the end, or if the other side died inside a frame."""
    size = int.from_bytes(stream.read(8), "little")
    content = stream.read(size) if size else b""
    return content if size and len(content) == size else None


if __name__ == "__main__":
    main()
