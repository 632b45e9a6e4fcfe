"""An index for each question set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from mergewise.engine import Index
from mergewise.evaluate.tasks import Task, find_tasks, load_task
from mergewise.store.views import Progress


def indexed_tasks(
    path: Path,
    folder: Path,
    views: Sequence[str],
    open_index: Callable[..., Index],
    progress: Callable[[str], AbstractContextManager[Progress]],
) -> Iterator[tuple[Index, Task]]:
    """The question sets of `path`, each with an index of its documents in a folder of its name.

    `open_index` is `mergewise.open` or a version of it with models. `progress` is entered with the name of each set.
    """
    for directory in find_tasks(path):
        task = load_task(directory)
        with progress(task.name) as advance:
            index = open_index(folder / task.name, views=views, progress=advance)
            index.add(task.documents, progress=advance)
        yield index, task
