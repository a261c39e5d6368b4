"""The threat model: every promise has its tests, and what it says of checksums is so."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckptspec
from ckptspec.formats import module_of
from ckptspec.oam import Model
from ckptspec.source import FileSource

ROOT = Path(__file__).resolve().parents[2]
TESTS = Path(__file__).parent
DOCS = ROOT / "docs"
PAGE = DOCS / "threat-model.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")


@pytest.fixture(scope="module")
def threats() -> Any:
    """The module that has the promises; it is no part of the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        from sitegen import threats  # type: ignore[import-not-found]

        return threats


@cache
def names_of(file: str) -> frozenset[str]:
    """Return the names of a file's tests, those of classes with the class before them."""
    names = set()
    for node in ast.parse((TESTS / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return frozenset(name for name in names if name.rpartition("::")[2].startswith("test_"))


def faults(promise: Any) -> list[str]:
    """Return what is wrong with a promise."""
    wrong = [] if promise.tests else ["no test holds it"]
    for test in promise.tests:
        file, _, name = test.partition("::")
        if not (TESTS / file).is_file() or name not in names_of(file):
            wrong.append(f"there is no test {test}")
    return wrong


def test_every_promise_has_its_tests(threats: Any) -> None:
    assert {promise.sentence: faults(promise) for promise in threats.PROMISES if faults(promise)} == {}
    assert {promise.attacker for promise in threats.PROMISES} == set(threats.ATTACKERS)
    for tests in ((), ("test_threats.py::test_nothing",), ("test_nothing.py::test_x",), ("test_threats.py::faults",)):
        assert faults(threats.Promise("file", "It holds.", tests)), tests


def test_the_page_shows_every_promise_and_limit(threats: Any) -> None:
    text = PAGE.read_text("utf-8")
    for attacker in threats.ATTACKERS:
        assert f"<!-- generated: promises {attacker} -->" in text
    assert "<!-- generated: limits -->" in text
    with pytest.raises(KeyError):
        threats.promises("nobody")


def test_checksums_can_be_forged_and_digests_cannot(tmp_path: Path) -> None:
    values = np.random.default_rng(7).standard_normal((40, 3)).astype(np.float32)
    model = Model(weights={"bias": np.zeros(3, np.float64), "w": values, "late": values[:5]}, state={"s": values})
    honest, forged = tmp_path / "model.oam", tmp_path / "forged.oam"
    ckptspec.save(honest, model)
    command = [sys.executable, str(DOCS / "examples" / "forge" / "forge.py"), str(honest), str(forged)]
    subprocess.run(command, check=True, timeout=120)
    small = tmp_path / "small.oam"
    ckptspec.save(small, Model(weights={"w": values[:3], "bias": np.zeros(30, np.float64)}))
    done = subprocess.run([*command[:2], str(small), str(forged)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, f"{small}: no f32 weight of at least ten elements\n")
    changed = ckptspec.load(forged)  # all checksums are compared
    assert changed.weights["w"][0, 0] == 1e6
    assert np.array_equal(changed.weights["late"], model.weights["late"])
    before, after = (np.frombuffer(path.read_bytes(), np.uint8) for path in (honest, forged))
    assert 0 < np.count_nonzero(before != after) <= 40
    stated = [region for region in module_of("oam").regions(FileSource(honest)) if region.path.endswith("checksum")]
    assert len(stated) > len(model.weights)
    for region in stated:
        place = slice(region.offset, region.offset + region.size)
        assert before[place].tolist() == after[place].tolist()
    told = [digests(path) for path in (honest, forged)]
    assert {name for name in told[0] if told[0][name] != told[1][name]} == {"w", "tensors_digest", "content_digest"}


def digests(path: Path) -> dict[str, Any]:
    """Return the digests of a file, those of tensors by their names."""
    command = [sys.executable, "-m", "ckptspec", "digest", "--json", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=120)
    made = json.loads(done.stdout)
    return {**made.pop("tensors"), **made, "file": ""}
