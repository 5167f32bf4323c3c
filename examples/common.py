"""What the examples share: their command line, and the look of their pictures."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#666666"  # Okabe and Ito's


def options(script: str, about: str | None, argv: Sequence[str] | None, **rounds: tuple[int, int]) -> argparse.Namespace:
    """The command line of a script. `steps=(1000, 50)`: it takes 1000 steps, or 50 with --quick, or what --steps says."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (full, quick) in rounds.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"how many (default: {full}; {quick} with --quick)")
    default = Path(f"{Path(script).stem}.png")
    parser.add_argument("--output", type=Path, default=default, help="where the picture goes (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a run of a few seconds, to see that it works")
    chosen = parser.parse_args(argv)
    for name, (full, quick) in rounds.items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, quick if chosen.quick else full)
    return chosen


def canvas(title: str, widths: Sequence[float], height: float = 3.6) -> tuple[Figure, list[Any]]:
    """A figure with panels of these widths, in inches, side by side."""
    figure = Figure(figsize=(sum(widths), height), dpi=100, layout="constrained")
    figure.suptitle(title, fontweight="bold")
    panels = figure.subplots(1, len(widths), width_ratios=list(widths), squeeze=False)[0]
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(panels)


def save(figure: Figure, path: Path) -> None:
    """Write the picture as a PNG of 256 colours, which is small enough to keep."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, format="png", optimize=True)
    print(f"picture: {path}")
