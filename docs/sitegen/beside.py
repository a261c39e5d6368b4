"""What lies beside the pages of the site and is no page of mkdocs: golden files, their archive, matrices.

A process of its own makes it while mkdocs makes the pages: ``python docs/sitegen/beside.py FOLDER``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["Beside"]


class Beside:
    """The process, and the folder that it fills."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        command = [sys.executable, __file__, self._folder.name]
        self._process = subprocess.Popen(command)  # noqa: S603  # this very file

    def move_into(self, site: Path) -> None:
        """Wait for the process, and put what it made into the site; CalledProcessError if it failed."""
        status = self._process.wait()
        if status:
            raise subprocess.CalledProcessError(status, self._process.args)
        for made in Path(self._folder.name).iterdir():
            shutil.copytree(made, site / made.name, dirs_exist_ok=True)
        self.end()

    def end(self) -> None:
        """End the process if it runs, and remove the folder."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def main(folder: Path) -> None:
    """Make everything in a folder."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from sitegen.archive import publish_vectors
    from sitegen.matrices import publish_matrices

    publish_vectors(folder)
    publish_matrices(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
