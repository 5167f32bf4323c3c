"""What a worker process can know about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker this is (`id` of `num_workers`), the seed that it was given, and its own copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader, what it knows about itself; elsewhere None."""
    return current
