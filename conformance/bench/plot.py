"""The figures as a picture, for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .timing import Row

__all__ = ["draw"]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the hash paths, and loading and saving by size, as a PNG. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = [group for group in ("hash", "load", "save") if any(row.group == group for row in rows)]
    figure, axes = pyplot.subplots(1, len(groups), figsize=(5.2 * len(groups), 4.6), squeeze=False)
    for axis, group in zip(axes[0], groups, strict=True):
        shown = [row for row in rows if row.group == group and row.note]
        rates = [float(row.note.split(" MB/s")[0]) / 1000 for row in shown]
        colours = ["tab:orange" if row.ratio is None else "tab:blue" for row in shown]
        axis.barh(range(len(shown)), rates, color=colours)
        axis.set_yticks(range(len(shown)), [row.what for row in shown], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlabel("GB/s")
        axis.set_title({"hash": "FNV-1a-64", "load": "Loading", "save": "Saving, flushed to disk"}[group])
        for at, rate in enumerate(rates):
            axis.annotate(f" {rate:.2f}", (rate, at), va="center", fontsize=7)
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=140)
    pyplot.close(figure)
