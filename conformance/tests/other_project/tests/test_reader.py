"""What the authors of this project test: their reader and their writer against the suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tinyload
from hypothesis import HealthCheck, Phase, given, settings

from ckptspec.conformance import strategies
from ckptspec.testing import Case, CaseSelector, assert_refused, assert_same, assert_valid, check_reader, check_writer

FEW = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.ckptspec_cases(format="safetensors")
def test_reader(case: Case) -> None:
    check_reader(case, tinyload.document_of, refusal=tinyload.BadFileError)


@pytest.mark.ckptspec_cases(format="safetensors", verdict=["valid", "acceptable"], skip_tags="many")
class TestAcceptance:
    def test_content_does_not_matter(self, case: Case) -> None:
        check_reader(case, tinyload.read, refusal=tinyload.BadFileError, content=False)

    def test_without_a_case(self) -> None:
        assert tinyload.BITS


@pytest.mark.ckptspec_cases(format="safetensors", match="*/golden_minimal", direction="encode")
def test_writer(case: Case) -> None:
    check_writer(case, tinyload.write)


@pytest.mark.ckptspec_cases(format="safetensors", match="*/golden_minimal", direction="encode")
def test_writer_strictly(case: Case) -> None:
    check_writer(case, tinyload.write, strict=True)


@FEW
@given(strategies.files("safetensors"))
def test_any_file(file: strategies.SoundFile) -> None:
    assert tinyload.document_of(file.data) == file.document


@FEW
@given(strategies.damaged_files("safetensors", rules="SAFETENSORS-DAT-GAP"))
def test_any_gap(file: strategies.DamagedFile) -> None:
    with pytest.raises(tinyload.BadFileError):
        tinyload.read(file.data)


def test_a_broken_file_passes(broken: Path) -> None:
    tinyload.read(broken.read_bytes())


def test_the_files_are_what_they_are_said_to_be(broken: Path, ckptspec_cases: CaseSelector) -> None:
    assert_refused(broken, "SAFETENSORS-DAT-OVERLAP")
    for case in ckptspec_cases(format="safetensors", verdict="valid", match="*/golden_*"):
        assert_valid(case.path)


def test_a_conversion(ckptspec_case: Callable[[str], Case]) -> None:
    document: dict[str, Any] = ckptspec_case("safetensors/golden_layout_mixed").document
    assert_same(tinyload.write(document), ckptspec_case("safetensors/golden_layout_mixed").path)
