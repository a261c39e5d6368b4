"""Builds the source distribution and the wheel, and tries the wheel alone on the Pythons of this machine.

``build`` writes both to a folder. ``smoke`` builds twice and compares the bytes, looks at what is in them, installs the
wheel into an environment with nothing else than it needs, and runs the packaged smoke suite there: on this Python, with
``--all`` on all that are found, with ``--oldest`` on the oldest one with the oldest versions of what the package needs.

What is built comes from a copy of the files that git knows or would add, so that nothing left in the folder gets into
it. Times in the archives are those of the last commit, or of SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.parser import Parser
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
LINKED: Final = ("spec", "conformance")  # folders that are subpackages by links
NOT_IN_WHEEL: Final = ("conformance/demo.sh",)
NOT_IN_SDIST: Final = (".gitattributes", ".gitignore", ".pre-commit-hooks.yaml")
AT_A_TIME: Final = 2  # environments


class WrongError(Exception):
    """A package is not what it should be; the text says why."""


def run(*words: object, **more: Any) -> str:
    """Run a command and return what it printed; WrongError, with all of that, if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise WrongError(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def project() -> dict[str, Any]:
    """Return the table ``project`` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


# ------------------------------------------------------------------------------------------------------------- building


def sources() -> list[str]:
    """Return the paths of all files that git knows, or would add; links are among them."""
    listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    return [path for path in listed.split("\0") if path and os.path.lexists(ROOT / path)]


def epoch() -> int:
    """Return the time that goes into the archives, in seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def build(target: Path) -> tuple[Path, Path]:
    """Build both into an empty folder, the wheel from the source distribution; return their paths."""
    seconds = epoch()
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "PYTHONHASHSEED": "random"}
    builder = (sys.executable, "-W", "ignore", "-m", "build", "--no-isolation")
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder:
        copy = Path(folder, "copy")
        for path in sources():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, copy / path, follow_symlinks=False)
        run(*builder, "--sdist", "--outdir", folder, copy, env=variables)
        (made,) = Path(folder).glob("*.tar.gz")
        target.mkdir(parents=True, exist_ok=True)
        sdist = target / made.name
        sdist.write_bytes(settled(made.read_bytes(), seconds))
        with tarfile.open(sdist) as archive:
            archive.extractall(Path(folder, "unpacked"), filter="data")
        (unpacked,) = Path(folder, "unpacked").iterdir()
        run(*builder, "--wheel", "--outdir", target, unpacked, env=variables)
    (wheel,) = target.glob("*.whl")
    return sdist, wheel


def settled(sdist: bytes, seconds: int) -> bytes:
    """Return a source distribution whose bytes do not tell when, where and by whom it was made."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(sdist)) as old, tarfile.open(fileobj=packed, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=seconds)


# ------------------------------------------------------------------------------------------------------------- checking


def check(sdist: Path, wheel: Path) -> None:
    """Raise WrongError if a file is missing or should not be there, or if the metadata is not what the project says."""
    files = {path for path in sources() if not (ROOT / path).is_symlink()}
    packed = {path.removeprefix("reference/") for path in files if path.startswith("reference/")}
    packed |= {f"ckptspec/{path}" for path in files - {*NOT_IN_WHEEL} if path.split("/")[0] in LINKED}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        same("wheel", names, packed)
        (info,) = {name.split("/")[0] for name in archive.namelist()} - {"ckptspec"}
        check_metadata(
            {name.removeprefix(f"{info}/"): archive.read(name) for name in archive.namelist() if info in name}
        )
    with tarfile.open(sdist) as tar:
        inside = {member.name.partition("/")[2] for member in tar.getmembers() if member.isfile()}
    inside = {path for path in inside if ".egg-info/" not in path} - {"PKG-INFO", "setup.cfg"}
    wanted = {f"reference/{path}" for path in packed} | {path for path in files if path.split("/")[0] not in LINKED}
    same("source distribution", inside - {*NOT_IN_WHEEL}, wanted - {*NOT_IN_SDIST})


def same(what: str, found: set[str], wanted: set[str]) -> None:
    """Raise WrongError if two sets of files differ."""
    lines = [f"missing: {path}" for path in sorted(wanted - found)]
    lines += [f"superfluous: {path}" for path in sorted(found - wanted)]
    if lines:
        raise WrongError(
            "\n  ".join((f"{what}:", *lines[:30], *([f"and {len(lines) - 30} more"] if lines[30:] else [])))
        )


def check_metadata(info: dict[str, bytes]) -> None:
    """Compare the metadata of a wheel with what pyproject.toml says."""
    told, table = Parser().parsestr(info["METADATA"].decode()), project()
    readme = (ROOT / table["readme"]).read_text("utf-8")
    extras = table["optional-dependencies"]
    needed = [line for line in told.get_all("Requires-Dist", []) if "extra ==" not in line]
    facts = {
        "name": (told["Name"], table["name"]),
        "version": (told["Version"], table["version"]),
        "licence": (told["License-Expression"], table["license"]),
        "licence's text": (info.get("licenses/LICENSE"), (ROOT / "LICENSE").read_bytes()),
        "kind of README": (told["Description-Content-Type"], "text/markdown"),
        "README": (str(told.get_payload()).strip(), readme.strip()),
        "Python": (told["Requires-Python"], table["requires-python"]),
        "classifiers": (told.get_all("Classifier"), table["classifiers"]),
        "dependencies": (sorted(map(plain, needed)), sorted(map(plain, table["dependencies"]))),
        "extras": (sorted(told.get_all("Provides-Extra", [])), sorted(extras)),
        "commands": (b"ckptspec = ckptspec.cli:main" in info["entry_points.txt"], True),
        "tag": (b"Tag: py3-none-any" in info["WHEEL"], True),
    }
    wrong = [f"{name}: {found!r}, expected {wanted!r}" for name, (found, wanted) in facts.items() if found != wanted]
    if wrong:
        raise WrongError("\n  ".join(("metadata:", *wrong)))


def plain(requirement: str) -> str:
    """Return a requirement without blanks, its limits in order."""
    name, limits = re.fullmatch(r"([\w.-]+)\s*(.*)", requirement).groups()  # type: ignore[union-attr]
    return f"{name.replace('-', '_').lower()} {sorted(limits.replace(' ', '').split(','))}"


# --------------------------------------------------------------------------------------------------------------- trying


def wanted_pythons() -> list[str]:
    """Return the versions that the classifiers name, such as 3.11, in order."""
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project()["classifiers"])
    return sorted((match[1] for match in found if match), key=lambda text: int(text.split(".")[1]))


def pythons() -> dict[str, Path]:
    """Return a Python for each version that the machine has, this one first.

    They are looked for on the path, among those of pyenv and uv, and in CKPTSPEC_PYTHONS, which lists commands.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = {own: Path(sys.executable)}
    for candidate in candidates():
        asked = "import sys; print(*sys.version_info[:2], sep='.'); print(sys.implementation.name)"
        done = subprocess.run([candidate, "-I", "-c", asked], capture_output=True, text=True, check=False)
        version, _, name = done.stdout.strip().partition("\n")
        if (
            not done.returncode
            and name == "cpython"
            and version not in found
            and int(version.split(".")[1]) >= oldest()
        ):
            found[version] = candidate
    return found


def oldest() -> int:
    """Return the minor version of the oldest Python."""
    return int(project()["requires-python"].rpartition(".")[2])


def candidates() -> Iterator[Path]:
    """Yield what may be a Python."""
    yield from (Path(text) for text in os.environ.get("CKPTSPEC_PYTHONS", "").split(os.pathsep) if text)
    for version in range(oldest(), 30):
        where = shutil.which(f"python3.{version}")
        if where:
            yield Path(where)
    yield from sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    yield from sorted(Path.home().glob(".local/share/uv/python/cpython-3.*/bin/python3"))


def attempt(python: Path, wheel: Path, versions: Sequence[str] = ()) -> str:
    """Install a wheel alone into a fresh environment, run the smoke suite there, and return what it printed."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder:
        run(python, "-m", "venv", "--without-pip", f"{folder}/venv", env=variables)
        inside = Path(folder, "venv", "bin", "python")
        installer = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            inside,
            "--disable-pip-version-check",
            "install",
            "--quiet",
        )
        run(*installer, wheel, *versions, env=variables)
        run(inside.parent / "ckptspec", "--version", cwd=folder, env=variables)
        return run(inside, "-W", "error", "-m", "ckptspec.conformance.smoke", cwd=folder, env=variables)


def smoke(*, every: bool, old: bool) -> None:
    """Build, check and try."""
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder:
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            (sdist, wheel), again = pool.map(build, (Path(folder, "one"), Path(folder, "two")))
        for one, other in zip((sdist, wheel), again, strict=True):
            if one.read_bytes() != other.read_bytes():
                raise WrongError(f"{one.name}: two builds differ")
            digest = hashlib.sha256(one.read_bytes()).hexdigest()
            print(f"{one.name}: {one.stat().st_size} bytes, the same twice, sha256 {digest[:16]}")
        check(sdist, wheel)
        there = pythons()
        missing = [version for version in wanted_pythons() if version not in there]
        if old:
            versions = [line.replace(">=", "==") for line in project()["dependencies"]]
            jobs = [(next(there[version] for version in wanted_pythons() if version in there), versions)]
        else:
            jobs = [(python, []) for python in (there.values() if every else (Path(sys.executable),))]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for told in pool.map(lambda job: attempt(job[0], wheel, job[1]), jobs):
                print(told, end="")
        if every and missing:
            print(f"not tried, since it is not on this machine: Python {', '.join(missing)}")


def main() -> int:
    """Build, or build and try."""
    parser = argparse.ArgumentParser(description="Build the packages, or try them.")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("build", help="write both to a folder").add_argument("folder", type=Path)
    trying = actions.add_parser("smoke", help="build twice, check, install alone and run the smoke suite")
    trying.add_argument("--all", action="store_true", help="on all Pythons of this machine")
    trying.add_argument("--oldest", action="store_true", help="with the oldest versions of what the package needs")
    options = parser.parse_args()
    try:
        if options.action == "smoke":
            smoke(every=options.all, old=options.oldest)
        else:
            shutil.rmtree(options.folder, ignore_errors=True)
            check(*build(options.folder))
            print(*sorted(options.folder.iterdir()), sep="\n")
    except WrongError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
