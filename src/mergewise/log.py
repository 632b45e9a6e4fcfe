"""The logger of the package. Programs configure it by its name, "mergewise"."""

from __future__ import annotations

import logging

log = logging.getLogger("mergewise")
