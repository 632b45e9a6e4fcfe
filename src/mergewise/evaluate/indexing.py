"""Question sets, each with the index that is asked: one made of its documents, or for a file of questions one that stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from mergewise.engine import Index
from mergewise.evaluate.tables import load_table
from mergewise.evaluate.tasks import Task, find_tasks, load_task
from mergewise.store.views import Progress


def indexed_tasks(
    path: Path,
    standing: Path,
    folder: Path,
    views: Sequence[str],
    open_index: Callable[..., Index],
    progress: Callable[[str], AbstractContextManager[Progress]],
) -> Iterable[tuple[Index, Task]]:
    """The question sets of `path`, each with an index of its documents in `folder`; a file of questions with the `standing` one.

    `open_index` is `mergewise.open` or a version of it with models. `progress` is entered with what is done.
    """

    def indexed(task: Task) -> tuple[Index, Task]:
        with progress(f"Indexing {task.name}") as advance:
            index = open_index(folder / task.name, views=views, progress=advance)
            index.add(task.documents, progress=advance)
        return index, task

    if path.is_file():
        return [(open_index(standing, create=False), load_table(path))]
    return (indexed(load_task(directory)) for directory in find_tasks(path))
