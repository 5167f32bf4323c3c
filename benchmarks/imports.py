"""What `import symgrad` costs on top of `import numpy`: fresh processes, taken in turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

CODE = "import time, numpy; start = time.perf_counter(); import symgrad; print(time.perf_counter() - start)"


def _seconds(environment: dict[str, str]) -> float:
    return float(subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True).stdout)


def report(runs: int = 15, target_ms: float = 60.0) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, check=True)  # writes the byte code
    times = [_seconds(environment) * 1e3 for _ in range(runs)]
    verdict = "met" if min(times) <= target_ms else "missed"
    measured = f"{min(times):.0f} / {statistics.median(times):.0f} ms"
    return f"`import symgrad` after `import numpy`: {measured} (target {target_ms:.0f} ms: {verdict})"
