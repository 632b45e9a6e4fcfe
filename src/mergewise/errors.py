"""Every error mergewise raises on purpose. Each says what happened and, in `hint`, what to do next.

MergewiseError
├── UsageError            the caller asked for something that cannot be (exit 2)
├── ReadError             one file could not be read; its reason goes into the summary of `add`
├── MissingExtra          an optional dependency is not installed, or broken
├── Cancelled             the caller called the work off; what was finished stays
├── DeadlineExceeded      a question took longer than it may
├── ModelError            a model failed or answered nonsense
│   └── InputRefused      an endpoint refuses what it was sent, which may be too long
└── StoreError            the index on disk
    ├── NotAnIndex        the directory holds something else (exit 2)
    ├── NewerFormat       the index was written by a newer mergewise (exit 2)
    ├── OlderFormat       the index was written by an older mergewise (exit 2)
    ├── EmbedderMismatch  the index was built by another embedder (exit 2)
    ├── IndexBusy         another process is writing (retryable)
    └── CorruptIndex      an invariant is broken; `mergewise check --repair` may mend it
"""

from __future__ import annotations

from typing import ClassVar

from mergewise.redaction import masked

REQUIREMENT = "."
"""Requirement in the commands that install an extra: "." is the checkout. On release it becomes "mergewise"."""


def install_command(extra: str, *options: str) -> str:
    """Return the command that installs an extra, such as `pip install ".[openai]"`, with more options of pip."""
    return " ".join(("pip install", *options, f'"{REQUIREMENT}[{extra}]"'))


class MergewiseError(Exception):
    """Base of all errors. `exit_code` is what the command line returns; `retryable` is what a retry looks at.

    Neither message nor hint holds a key that this process sends.
    """

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = masked(message), masked(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(MergewiseError):
    exit_code = 2


class ReadError(MergewiseError):
    pass


class MissingExtra(MergewiseError):
    """An optional dependency that is not installed, or that is installed but broken.

    Args:
        feature: The package or feature, as the message names it.
        extra: The extra that installs it.
        cause: The error that importing the package raised. It tells an absent package from a broken one.
    """

    def __init__(self, feature: str, extra: str, cause: Exception | None = None) -> None:
        if cause is None or _is_absence(cause):
            super().__init__(f"{feature} is not installed", install_command(extra))
            return
        reason = str(cause).strip().partition("\n")[0] or type(cause).__name__
        super().__init__(
            f"{feature} is installed, but cannot be imported: {reason}",
            f"repair it, or reinstall it: {install_command(extra, '--force-reinstall')}",
        )


def _is_absence(error: Exception) -> bool:
    """Check that the import statement itself found no module, and not an import inside an installed package."""
    return isinstance(error, ModuleNotFoundError) and (
        error.__traceback__ is None or error.__traceback__.tb_next is None
    )


class Cancelled(MergewiseError):
    pass


class DeadlineExceeded(MergewiseError):
    pass


class ModelError(MergewiseError):
    pass


class InputRefused(ModelError):
    pass


class StoreError(MergewiseError):
    pass


class NotAnIndex(StoreError):
    exit_code = 2


class NewerFormat(StoreError):
    exit_code = 2


class OlderFormat(StoreError):
    exit_code = 2


class EmbedderMismatch(StoreError):
    exit_code = 2


class IndexBusy(StoreError):
    retryable = True


class CorruptIndex(StoreError):
    pass
