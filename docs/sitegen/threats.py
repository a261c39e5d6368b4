"""What is promised against whom, and which tests hold it: the tables of the threat model.

A promise is one row of ``PROMISES``. A test stands there as ``test_file.py::name``, or ``test_file.py::Class::name``;
a test of the documentation looks whether there is such a test. ``LIMITS`` are bounds of the schema and of the code.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .markdown import code, grouped, table

__all__ = ["ATTACKERS", "BLOCKS", "LIMITS", "PROMISES", "Promise"]

FILE, NAMES, DOCUMENT, ADAPTER, SERVER, PROCESS, DISK = ATTACKERS = (
    "file",
    "names",
    "document",
    "adapter",
    "server",
    "process",
    "disk",
)
_TESTS: Final = "../conformance/tests"


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise against an attacker, and the tests that hold it."""

    attacker: str
    sentence: str
    tests: tuple[str, ...]


PROMISES: Final = (
    Promise(
        FILE,
        "Whatever the bytes, nothing but a `CheckpointError` or an `OSError` leaves the library.",
        (
            "test_properties.py::test_arbitrary_bytes",
            "test_properties.py::test_arbitrary_edits_with_good_checksums",
            "test_ocannl_properties.py::test_any_damage",
            "test_ocannl_properties.py::test_arbitrary_bytes",
            "test_safetensors_properties.py::test_any_damage",
            "test_safetensors_properties.py::test_arbitrary_bytes",
            "test_fuzz.py::test_nothing_fails_on_the_corpus_and_golden_files",
        ),
    ),
    Promise(
        FILE,
        "What a rule forbids is refused: every rule that refuses has a golden file that breaks it.",
        (
            "test_suite.py::test_every_rule_has_its_case",
            "test_suite.py::test_every_reject_rule_can_come_alone",
            "test_suite.py::test_file",
            "test_mutation.py::test_the_checks_of_all_rules_are_killed",
            "test_differential.py::test_golden_files",
        ),
    ),
    Promise(
        FILE,
        "A file that was cut is refused. So is an `.oam` file with one wrong byte, unless it is one of padding.",
        (
            "test_properties.py::test_every_truncation_is_refused",
            "test_properties.py::test_every_byte_flip_outside_padding_is_refused",
            "test_ocannl_properties.py::test_every_truncation_of_a_header_is_refused",
            "test_safetensors_properties.py::test_every_truncation_is_refused",
        ),
    ),
    Promise(
        FILE,
        "Headers that lie about sizes and counts take no more memory and time than their own size justifies.",
        (
            "test_ocannl_hostile.py::test_hostile_header_takes_little_memory",
            "test_sexp.py::TestDepthAndSize::test_linear",
            "test_safetensors_properties.py::test_extreme_numbers",
            "test_hostile.py::test_memory_follows_the_size_of_the_file",
        ),
    ),
    Promise(
        FILE,
        "Checking, comparing and hashing take memory that does not grow with the file.",
        ("test_diff.py::test_constant_memory", "test_convert.py::test_payloads_stream"),
    ),
    Promise(
        FILE,
        "Nothing in a file is run. Pickles and archives of them are named and refused, never read.",
        (
            "test_cli.py::test_foreign_content",
            "test_ocannl_host.py::test_hostile_bytes_give_a_generator_or_an_argument_error",
        ),
    ),
    Promise(
        FILE,
        "What a converted file says of its origin is checked like the rest, and brings in nothing that is forbidden.",
        ("test_convert.py::test_hostile_passengers", "test_convert.py::test_hostile_passengers_elsewhere"),
    ),
    Promise(
        NAMES,
        "Names and texts of a file are shown escaped: no terminal sequence, no change of direction, no second line.",
        (
            "test_cli.py::test_hostile_names_are_escaped",
            "test_runner.py::test_garbage_is_shown",
            "test_hostile.py::test_hostile_files_on_every_command",
            "test_hostile.py::test_hostile_names_of_files_on_every_command",
            "test_hostile.py::test_hostile_words_on_the_command_line",
        ),
    ),
    Promise(
        NAMES,
        "On pages they are data, never markup; a page runs no script but its own, and asks no host for anything.",
        (
            "test_html_inspect.py::test_hostile_text_is_shown_escaped_and_is_never_markup",
            "test_html_inspect.py::test_scripts_build_the_page_without_markup",
            "test_html.py::test_the_policy_names_the_pages_own_scripts_and_styles_and_nothing_else",
            "test_html.py::test_scripts_and_styles_that_the_policy_does_not_name_do_not_run",
            "test_browser.py::test_nothing_that_stands_in_a_file_runs",
            "test_matrix.py::test_hostile_text_is_data_and_nothing_else",
        ),
    ),
    Promise(
        NAMES,
        "Output does not fail where the terminal lacks a character, and does not depend on locale, time or place.",
        ("test_cli.py::test_output_survives_a_plain_locale", "test_determinism.py::test_environments"),
    ),
    Promise(
        NAMES,
        "What a web server says is escaped, too. Passwords and queries of addresses are shown nowhere.",
        (
            "test_remote.py::test_what_servers_say_is_harmless",
            "test_remote.py::test_secrets_are_never_shown",
            "test_remote.py::test_addresses_elsewhere_on_the_command_line",
        ),
    ),
    Promise(
        DOCUMENT,
        "A document that is not one is refused with the path of what is amiss, however deep, large or damaged it is.",
        (
            "test_properties.py::test_nothing_but_argument_errors_for_spoiled_documents",
            "test_properties.py::test_deep_and_huge_documents",
            "test_safetensors_properties.py::test_nothing_but_argument_errors_for_spoiled_documents",
            "test_ocannl_properties.py::test_encoders_agree_about_spoiled_documents",
        ),
    ),
    Promise(
        DOCUMENT,
        "Manifests and files of results are read as strictly.",
        (
            "test_digest.py::test_bad_manifests",
            "test_digest.py::test_no_manifests",
            "test_matrix.py::test_whatever_stands_in_a_file_is_taken_or_refused",
        ),
    ),
    Promise(
        ADAPTER,
        "An adapter that hangs, floods, dies or prints rubbish is reported as such; the run goes on.",
        (
            "test_runner.py::test_decoder_fault",
            "test_runner.py::test_encoder_fault",
            "test_third_party.py::test_hang_is_found",
        ),
    ),
    Promise(
        ADAPTER,
        "None of its processes that stay in its group outlives the run, also if the run is interrupted.",
        ("test_runner.py::test_no_process_survives", "test_runner.py::test_interrupted_run_leaves_no_process"),
    ),
    Promise(
        ADAPTER,
        "Golden files that were changed on disk are noticed before a run.",
        ("test_runner.py::test_changed_golden_file_is_told",),
    ),
    Promise(
        SERVER,
        "A file that changes while it is read is an error, as far as the server gives an etag, a time or a size.",
        ("test_remote.py::test_files_that_change_meanwhile",),
    ),
    Promise(
        SERVER,
        "A request that fails is tried a few times; then there is one line, and an audit goes on with the next file.",
        (
            "test_remote.py::test_broken_connections_are_tried_again",
            "test_remote.py::test_an_audit_goes_on_where_an_address_leads_nowhere",
        ),
    ),
    Promise(
        SERVER,
        "Users, passwords and queries of addresses are never shown or stored.",
        ("test_remote.py::test_secrets_are_never_shown", "test_remote.py::test_audits_elsewhere"),
    ),
    Promise(
        SERVER,
        "Nothing is written elsewhere.",
        ("test_remote.py::test_nothing_is_written_elsewhere",),
    ),
    Promise(
        PROCESS,
        "Many writers and many readers of one path: each reader sees one whole file, the old one or a new one.",
        (
            "test_storage.py::test_twenty_writers_and_twenty_readers",
            "test_ocannl_atomic.py::test_a_training_checkpoint_is_restored_while_it_is_replaced",
        ),
    ),
    Promise(
        PROCESS,
        "What dead writers left is cleared away; what living ones write, and files of other names, are left alone.",
        (
            "test_publish.py::test_temporaries_of_dead_writers_go_and_those_of_living_ones_stay",
            "test_ocannl_atomic.py::test_temporaries_of_other_destinations_and_of_living_writers_stay",
        ),
    ),
    Promise(
        PROCESS,
        "Only a regular file is read or replaced: no directory, FIFO or device; and no output goes over its input.",
        (
            "test_publish.py::test_destinations_that_are_no_files",
            "test_cli.py::test_what_is_no_file",
            "test_cli.py::test_no_output_goes_over_the_file_that_is_read",
        ),
    ),
    Promise(
        PROCESS,
        "A file that shrinks while it is examined or hashed is an error, and no signal.",
        (
            "test_streaming.py::test_reading_ahead_of_a_file_that_shrinks",
            "test_digest.py::test_file_that_shrinks",
            "test_storage.py::test_a_file_that_changes_while_it_is_read",
            "test_storage.py::test_no_verb_touches_a_map",
        ),
    ),
    Promise(
        DISK,
        "A save that fails, at whatever call, leaves the old file and no other.",
        (
            "test_faults.py::test_every_call_fails",
            "test_publish.py::test_short_reads_and_short_writes_are_continued",
            "test_ocannl_atomic.py::test_no_room",
        ),
    ),
    Promise(
        DISK,
        "So does one that is killed; and if only the last sync of the folder fails, that is reported.",
        (
            "test_ocannl_atomic.py::test_killed_at_random_moments",
            "test_ocannl_atomic.py::test_killed_while_writing",
            "test_storage.py::test_killed_at_random_moments",
            "test_faults.py::test_every_call_fails",
        ),
    ),
)

LIMITS: Final = (
    ("spec.schema", "OAM_MAX_SECTIONS", "sections of an `.oam` file"),
    ("spec.schema", "OAM_MAX_RANK", "axes of a tensor of an `.oam` file"),
    ("spec.schema", "OCANNL_MAX_HEADER", "bytes of the header of an OCANNL checkpoint"),
    ("spec.schema", "OCANNL_MAX_DEPTH", "lists open at a time in it"),
    ("spec.schema", "SAFETENSORS_MAX_HEADER", "bytes of the header of a safetensors file"),
    ("spec.schema", "SAFETENSORS_MAX_DEPTH", "objects and arrays open at a time in it"),
    ("neutral", "MAX_DOCUMENT_DEPTH", "objects and arrays open at a time in a document"),
    ("examination", "MAX_FINDINGS", "findings that a report lists; the others are counted"),
    ("conformance.run_arguments", "DEFAULT_TIMEOUT", "seconds for an answer of an adapter, unless told otherwise"),
    ("conformance.runner", "_LIMIT_MAX", "bytes of an answer that are read, at most"),
    ("conformance.processes", "STDERR_LIMIT", "bytes of what an adapter says on standard error that are kept"),
)


def promises(attacker: str) -> str:
    """Return what is promised against an attacker, with links to the tests."""
    chosen = [promise for promise in PROMISES if promise.attacker == attacker]
    if not chosen:
        raise KeyError(f"nothing is promised against {attacker}")
    rows = [[promise.sentence, "<br>".join(map(_link, promise.tests))] for promise in chosen]
    return table(("promise", "held by"), rows)


def _link(test: str) -> str:
    file, *_, name = test.split("::")
    return f"{file.removeprefix('test_').removesuffix('.py')}: [{code(name)}]({_TESTS}/{file})"


def limits() -> str:
    """Return the bounds that do not depend on the size of what is given."""
    rows = [[grouped(_value(module, name)), what] for module, name, what in LIMITS]
    return table(("at most", "of what"), rows, right=(0,))


def _value(module: str, name: str) -> int:
    return int(getattr(importlib.import_module(f"ckptspec.{module}"), name))


BLOCKS: Final[dict[str, Callable[..., str]]] = {"limits": limits, "promises": promises}
