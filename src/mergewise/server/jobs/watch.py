"""The progress of running jobs, and the checks that end them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import TYPE_CHECKING

from mergewise.errors import Cancelled
from mergewise.server.logs import log
from mergewise.server.records import Job, JobProgress, JobState
from mergewise.server.tables.jobs import JobTable

if TYPE_CHECKING:
    import mergewise as mw


TELL_SECONDS = 0.5
"""Seconds between two progress reports of a job, and between two checks for its cancellation."""
LOG_SECONDS = 10.0
"""Seconds between two lines of the log about the progress of a job."""
TURN_SECONDS = 10.0
"""Seconds after which a job ends its turn, if another collection has waited as long."""


class Watch:
    """Progress reports of running jobs to the state, and checks for their cancellation or the end of their turn.

    Jobs with an `index` can end their turn. It ends with a batch, when the index has a new snapshot, so that no work is lost.
    `must_share` checks if another collection has waited for so many seconds.
    """

    def __init__(
        self, table: JobTable, jobs: Sequence[Job], stopping: Event, must_share: Callable[[float], bool]
    ) -> None:
        self._table, self._jobs, self._stopping, self._must_share = table, jobs, stopping, must_share
        self.index: mw.Index | None = None
        self._snapshot: str | None = None
        self._shares = False
        self._reported, self._looked, self._began = -TELL_SECONDS, -TELL_SECONDS, time.monotonic()
        self._document: str | None = None
        self._cancelled = False
        self._logged = time.monotonic()

    def report(self, done: int, total: int, document: str) -> None:
        """Report progress (a `Progress` of the engine). A new document is recorded at once, because the process may die at it."""
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            job, percent = self._jobs[0], 100 * done // max(1, total)
            log.info("%s of %s is at %d %% of %d characters", job.kind, job.collection, percent, total)
        is_event = now - self._reported >= TELL_SECONDS
        if not is_event and (document or None) == self._document:
            return
        self._reported, self._document = now if is_event else self._reported, document or None
        for job in self._jobs:
            progress = JobProgress(done, total, document=self._document)
            self._cancelled |= self._table.set_progress(job.id, progress, is_event=is_event) == "cancelling"

    def report_or_end(self, done: int, total: int, document: str) -> None:
        """Report progress of work that has no `cancel` callback. Raises Cancelled."""
        self.report(done, total, document)
        self._check_end()

    def _check_end(self) -> None:
        if self.must_stop():
            raise Cancelled("the job was cancelled", "start the job again")

    def must_stop(self) -> bool:
        """Check if the engine must stop: a job is being cancelled, the process shuts down, or the turn ends."""
        now = time.monotonic()
        if not self._cancelled and now - self._looked >= TELL_SECONDS:
            self._looked = now
            current = [self._table.get(job.id) for job in self._jobs]
            self._cancelled = any(job is not None and job.state == "cancelling" for job in current)
            self._shares = now - self._began >= TURN_SECONDS and self._must_share(TURN_SECONDS)
        if self._cancelled or self._stopping.is_set():
            return True
        before, self._snapshot = (
            self._snapshot,
            self.index.snapshot if self.index is not None and self._shares else None,
        )
        return None not in (before, self._snapshot) and before != self._snapshot

    def wait_for_lock(self, index: mw.Index) -> None:
        """Wait until no other process writes to the index. Raises Cancelled if the jobs must end."""
        while index.store.place.is_locked():
            self.wait()
        self._set_states("running")

    def wait(self) -> None:
        """Wait a moment for the right to write. Raises Cancelled if the jobs must end."""
        self._set_states("waiting_lock")
        self._looked = -TELL_SECONDS
        self._check_end()
        self._stopping.wait(TELL_SECONDS)

    def _set_states(self, state: JobState) -> None:
        for job in self._jobs:
            self._table.set_state(job.id, state)
