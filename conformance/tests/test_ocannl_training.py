"""Training checkpoints: what a routine carries, what is saved, what restoring refuses."""

from __future__ import annotations

import os
import random
import struct
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptspec import ArgumentError, FormatError, decode, encode, ocannl, validate
from ckptspec.ocannl import Context, Padding, Registry, TensorNode, training
from ckptspec.ocannl.training import (
    Loss,
    Progress,
    Routine,
    SeedsUncheckedWarning,
    Segment,
    carried_state,
    read,
    training_state,
    update,
    write,
)

W, M, X, G = (TensorNode(id=index, label=(name,), dims=(2,)) for index, name in enumerate("wmxg"))
run: Any = training  # for calls that mypy refuses, too


def context(nodes: Iterable[TensorNode] = (W, M), *, value: float = 1.0, seeds: Iterable[int] = (42, 7)) -> Context:
    registry = Registry()
    registry.add(nodes)
    for seed in seeds:
        registry.seed(seed)
    return Context({node: np.full(node.shape, value, node.dtype) for node in registry}, registry=registry)


def same(one: Context, other: Context) -> bool:
    """Whether two contexts hold the same bits."""
    return list(one) == list(other) and all(one[node].tobytes() == other[node].tobytes() for node in one)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of w and m, all ones, with the seeds 42 and 7."""
    path = tmp_path / "run.ckpt"
    training.save(context(), Progress(step=3), (W, M), path)
    return path


# ------------------------------------------------------------------------------------------- what a routine carries

CARRIED: list[tuple[str, list[list[training.Access]], list[TensorNode], list[TensorNode]]] = [
    ("only read", [[read(X)]], [], []),
    ("only written", [[write(G)]], [], []),
    ("read, then written", [[read(W), write(W)]], [], [W]),
    ("written, then read", [[write(W), read(W)]], [], []),
    ("updated", [[update(M)]], [], [M]),
    ("updated after it was written", [[write(M), update(M)]], [], []),
    ("written, read, written", [[write(W), read(W), write(W)]], [], []),
    ("read twice, then written", [[read(W), read(W), write(W)]], [], [W]),
    ("read in one kernel, written in a later one", [[read(W)], [read(X)], [write(W)]], [], [W]),
    ("written in one kernel, read in a later one", [[write(G)], [read(G), update(W)]], [], [W]),
    ("a step of an optimizer", [[read(X), read(W), write(G)], [read(G), update(M), update(W)]], [], [W, M]),
    ("an optimized input, which is no parameter", [[read(X), write(G)], [read(G), update(X)]], [], [X]),
    ("virtual", [[update(G), update(W)]], [G], [W]),
    ("a kernel that does nothing", [[]], [], []),
    ("equal nodes are one", [[read(TensorNode(id=0)), write(W)]], [], [W]),
    ("labels do not matter", [[read(TensorNode(id=9, label=("w",))), write(W)]], [], []),
    ("namespaces do", [[read(TensorNode(namespace="other", id=0)), write(W)]], [], []),
]


def test_what_a_routine_carries() -> None:
    for what, segments, virtual, expected in CARRIED:
        routine = Routine(name=what, segments=[Segment(accesses) for accesses in segments], virtual=virtual)
        assert carried_state(routine) == tuple(expected), what


def test_a_routine_without_kernel_segments_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^step: it records no kernel segments, so what it carries is unknown$"):
        carried_state(Routine(name="step"))
    with pytest.raises(ArgumentError, match="no kernel segments"):
        training_state([Routine(name="step")], Loss([W]))


Kernels = st.lists(
    st.lists(st.tuples(st.sampled_from([read, write, update]), st.sampled_from([W, M, X, G]))), min_size=1
)


@given(Kernels, st.sets(st.sampled_from([W, M, X, G])))
def test_carried_is_through_what_a_run_sees_of_the_run_before(
    kernels: list[list[Any]], virtual: set[TensorNode]
) -> None:
    """Run the routine twice on memory that knows which run wrote it."""
    routine = Routine(segments=[Segment([do(node) for do, node in kernel]) for kernel in kernels], virtual=virtual)
    writer: dict[TensorNode, int] = {}
    seen = set()
    for number in (1, 2):
        for segment in routine.segments:
            for access in segment.accesses:
                if access.reads and number == 2 and writer.get(access.node) == 1:
                    seen.add(access.node)
                if access.writes:
                    writer[access.node] = number
    assert set(carried_state(routine)) == seen - virtual


def test_training_state_is_parameters_then_carried_then_extra_each_once() -> None:
    frozen, buffer = TensorNode(id=10), TensorNode(id=11)
    step = Routine(segments=[Segment([read(X), read(W), write(G)]), Segment([read(G), update(M), update(W)])])
    other = Routine(segments=[Segment([update(buffer), update(M)])])
    assert training_state([step], Loss([frozen, W])) == (frozen, W, M)
    assert training_state([other, step], Loss([frozen, W]), extra=[X, M]) == (frozen, W, buffer, M, X)
    assert training_state([], Loss([])) == ()

    class Model:
        params = (W,)

    assert training_state([step], Model()) == (W, M)


def test_arguments_of_the_wrong_kind_are_named() -> None:
    bad: list[tuple[Callable[[], object], str]] = [
        (lambda: run.read("w"), r"^node: found 'w', expected a TensorNode"),
        (lambda: run.Segment([W]), r"^accesses\[0\]: found TensorNode, expected Access"),
        (lambda: run.Segment(read(W)), r"^accesses: found Access, expected a collection of Access"),
        (lambda: run.Routine(segments=[[read(W)]]), r"^segments\[0\]: found list of 1, expected Segment"),
        (lambda: run.Routine(segments=[Segment()], virtual=[1]), r"^virtual\[0\]: found 1"),
        (lambda: run.carried_state(Segment()), r"^routine: found Segment, expected a Routine"),
        (lambda: run.training_state(Routine(), Loss()), r"^routines: found Routine, expected a collection of Routine"),
        (lambda: run.training_state([], [W]), r"^loss: found list of 1, expected something that has params"),
        (lambda: run.training_state([], Loss([W]), extra=[None]), r"^extra\[0\]: found None, expected TensorNode"),
        (lambda: run.Loss("w"), r"^params: found 'w', expected a collection"),
        (
            lambda: run.training_state([], Loss([W]), extra=[TensorNode(id=0, dims=(3,))]),
            r"^training_state: tensor ocannl:0 stands for two nodes that differ in precision, dims or padding",
        ),
        (lambda: run.Progress(step=-1), r"^step: found -1, expected 0 to"),
        (lambda: run.Progress(epoch=1 << 62), r"^epoch: found 4611686018427387904, expected 0 to"),
        (lambda: run.Progress(position=1.0), r"^position: found 1.0, expected an integer"),
        (
            lambda: run.Progress(host_rng=random.Random(1)),
            r"^host_rng: found Random, .* host_rng.capture\(\) makes bytes",
        ),
        (lambda: run.Progress(extra="ab"), r"^extra: found 'ab', expected a mapping, or pairs"),
        (lambda: run.Progress(extra=["ab"]), r"^extra\[0\]: found 'ab', expected a key and a value"),
        (lambda: run.Progress(extra=[("k", 1)]), r"^extra\[0\]: found 1, expected text or bytes"),
        (lambda: run.Progress(extra={"k": "\ud800"}), r"^extra\[0\]: .* lone surrogates"),
    ]
    for call, message in bad:
        with pytest.raises(ArgumentError, match=message):
            call()


def test_progress_knows_the_first_name_of_each_atom() -> None:
    assert Progress(extra=[(b"k", b"v")]) == Progress(extra=[("k", "v")])
    assert hash(run.Progress(host_rng=bytearray(b"1"))) == hash(Progress(host_rng=b"1"))
    assert replace(Progress(step=3, extra={"k": "v"}), step=4) == Progress(step=4, extra=[("k", "v")])


# ------------------------------------------------------------------------------------------------------ save, restore


def test_everything_comes_back(tmp_path: Path) -> None:
    padded = TensorNode(namespace=b"n\xff", id=5, dims=(4, 3), padding=Padding(axes=((1, 1), (0, 1)), neutral=-0.0))
    half = TensorNode(id=6, precision="half", dims=(3,))
    state = (W, padded, half)
    registry = Registry()
    registry.seed(-5)
    padding = np.full((4, 3), -0.0, np.float32)
    padding[1:3, :2] = 7
    values: dict[TensorNode, Any] = {
        W: np.array([np.nan, -0.0], np.float32),
        padded: padding,
        half: np.arange(3, dtype=np.float16),
    }
    ctx = Context(values, registry=registry)
    progress = Progress(
        step=(1 << 62) - 1,
        epoch=2,
        position=4096,
        host_rng=bytes(range(256)),
        extra=[("b", "1."), (b"\xff", b"\x00\xfe"), ("a", b"text"), ("", 'é"\n')],
    )
    path = tmp_path / "run.ckpt"
    training.save(ctx, progress, state, path)
    assert validate(path).canonical
    fresh = Context({node: np.zeros_like(ctx[node]) for node in ctx}, registry=registry)
    for mmap, mapped in ((None, 2), (True, 2), (False, 0)):
        before = ocannl.ingestion_counts()
        restored, again = training.restore(fresh, state, path, mmap=mmap)
        assert ocannl.ingestion_counts() == (before.mapped + mapped, before.copied + 3 - mapped)
        assert again == progress
        assert again.extra == (("b", "1."), (b"\xff", b"\x00\xfe"), ("a", "text"), ("", 'é"\n'))
        assert (again.get("b"), again.get(b"a"), again.get("c")) == ("1.", "text", None)
        assert same(restored, ctx)
    assert not any(fresh[node].view(np.uint8).any() for node in (W, half))
    assert restored.registry is registry


def test_the_file_does_not_depend_on_the_order_of_the_state(tmp_path: Path) -> None:
    nodes = [TensorNode(namespace=space, id=index) for space in ("a", "b") for index in range(5)]
    files = []
    for state in (nodes, nodes[::-1], set(nodes), frozenset(nodes), iter(nodes + nodes)):
        training.save(context(nodes), Progress(), state, tmp_path / "run.ckpt")
        files.append((tmp_path / "run.ckpt").read_bytes())
    assert len(set(files)) == 1


def test_what_the_file_says(saved: Path) -> None:
    document = decode(saved)
    assert document["training"] == {
        "version": 2,
        "step": "3",
        "epoch": "0",
        "position": "0",
        "host_rng": None,
        "extra": [],
        "seeds": ["42", "7"],
        "state": [["ocannl", "0"], ["ocannl", "1"]],
    }
    plain = ocannl.restore(context(value=0.0), [M], saved)  # a training checkpoint is a persistence file
    assert plain[M].tolist() == [1, 1]
    assert plain[W].tolist() == [0, 0]


def test_save_refuses_before_the_first_byte(saved: Path) -> None:
    before = saved.read_bytes()
    ctx = context()

    def progress(**fields: Any) -> Progress:
        return replace(Progress(), **fields)

    bad: list[tuple[Callable[[], None], str]] = [
        (lambda: run.save(ctx, progress(), [], saved), r"^state: is empty: there would be nothing to resume"),
        (lambda: run.save(ctx, progress(), [W, X], saved), r"tensor ocannl:2 'x'"),
        (lambda: run.save(ctx, progress(), W, saved), r"^state: found TensorNode, expected a collection"),
        (lambda: run.save(ctx, progress(), ["w"], saved), r"^state\[0\]: found 'w', expected TensorNode"),
        (
            lambda: run.save(ctx, progress(), [W, TensorNode(id=0, dims=(3,))], saved),
            r"^state: tensor ocannl:0 stands for two nodes",
        ),
        (
            lambda: run.save(ctx, progress(extra=[("k", "1"), ("l", "2"), (b"k", "1")]), [W], saved),
            r"^extra: the key 'k' occurs twice",
        ),
        (lambda: run.save(ctx, {"step": 1}, [W], saved), r"^progress: found dict of 1, expected a Progress"),
        (lambda: run.save({}, progress(), [W], saved), r"^ctx: found dict of 0, expected a Context"),
        (lambda: run.save(ctx, progress(), [W], saved, seeds=[1, 1 << 62]), r"^seeds\[1\]: found 46116"),
        (lambda: run.save(ctx, progress(), [W], saved, seeds=[-(1 << 62) - 1]), r"^seeds\[0\]: found -46116"),
        (lambda: run.save(ctx, progress(), [W], saved, seeds=["1"]), r"^seeds\[0\]: found '1', expected an int"),
        (lambda: run.save(ctx, progress(), [W], saved, seeds=5), r"^seeds: found 5, expected a collection"),
        (lambda: run.save(ctx, progress(), [W], saved, alignment=0), r"alignment"),
    ]
    for call, message in bad:
        with pytest.raises(ArgumentError, match=message):
            call()
        assert saved.read_bytes() == before
        assert os.listdir(saved.parent) == [saved.name]


def test_saving_again_replaces_the_file(saved: Path) -> None:
    restored, _ = training.restore(context(value=0.0), (W, M), saved, mmap=True)
    training.save(context(value=5.0), Progress(step=4), (W, M), saved)
    assert restored[W].tolist() == [1, 1]  # the mapping is of the old file
    again, progress = training.restore(context(), (W, M), saved)
    assert (again[W].tolist(), progress.step) == ([5, 5], 4)


def test_seeds_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    extremes = [-(1 << 62), (1 << 62) - 1]
    training.save(context(seeds=[]), Progress(), [W], path, seeds=extremes)
    training.restore(context(seeds=extremes), [W], path)
    training.save(context(), Progress(), [W], path, seeds=[])
    training.restore(context(seeds=[]), [W], path)


def test_restore_refuses_and_changes_nothing(saved: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.ckpt"
    ocannl.save(context(), [W, M], plain)
    ctx = context(value=0.0)
    before = {node: ctx[node].copy() for node in ctx}
    wide = TensorNode(id=1, label=("m",), dims=(3,))
    double = TensorNode(id=0, precision="double", dims=(2,))
    padded = TensorNode(id=0, dims=(2,), padding=Padding(axes=((0, 1),)))
    differs = "the state is not the set of nodes that was saved"
    where = f"{saved}: "
    bad: list[tuple[Context, Any, Path, str]] = [
        (ctx, [W, M], plain, f"{plain}: it holds no training record: it is no training checkpoint"),
        (ctx, [W], saved, where + f"{differs}: only given: none; only saved: tensor ocannl:1 'm'"),
        (ctx, [W, M, X], saved, where + f"{differs}: only given: tensor ocannl:2 'x'; only saved: none"),
        (
            ctx,
            [X, G],
            saved,
            where + f"{differs}: only given: tensor ocannl:2 'x', tensor ocannl:3 'g'; "
            "only saved: tensor ocannl:0 'w', tensor ocannl:1 'm'",
        ),
        (ctx, [], saved, where + f"{differs}: only given: none; only saved: tensor ocannl:0 'w', tensor ocannl:1 'm'"),
        (
            ctx,
            [TensorNode(namespace="o", id=0), M],
            saved,
            where + f"{differs}: only given: tensor o:0; only saved: tensor ocannl:0 'w'",
        ),
        (context(seeds=[7, 42]), [W, M], saved, "its program had the seeds 42, 7, this one has 7, 42: the same seeds"),
        (context(seeds=[42]), [W, M], saved, "its program had the seeds 42, 7, this one has 42: the same seeds"),
        (context(seeds=[]), [W, M], saved, "its program had the seeds 42, 7, this one has none"),
        (ctx, [W, wide], saved, "tensor ocannl:1 'm' has dims [2] in the file, [3] here"),
        (ctx, [double, M], saved, "tensor ocannl:0 has precision single in the file, double here"),
        (ctx, [padded, M], saved, "tensor ocannl:0 has padding none in the file"),
        (ctx, [W, W, M, TensorNode(id=1)], saved, "state: tensor ocannl:1 stands for two nodes that differ"),
        (ctx, "wm", saved, "state: found 'wm', expected a collection of TensorNode"),
    ]
    for used, state, path, message in bad:
        with pytest.raises(ArgumentError) as caught:
            training.restore(used, state, path)
        assert message in str(caught.value)
        assert path.name in str(caught.value) or message.startswith("state: ")
    with pytest.raises(ArgumentError, match="found dict of 0, expected a Context"):
        run.restore({}, [W, M], saved)
    assert list(ctx) == list(before)
    assert all((ctx[node] == before[node]).all() for node in ctx)


def test_every_failing_node_is_named(saved: Path) -> None:
    state = [TensorNode(id=0, dims=(3,)), TensorNode(id=1, precision="half", dims=(2,))]
    with pytest.raises(ArgumentError) as caught:
        training.restore(context(), state, saved)
    assert "tensor ocannl:0 has dims" in str(caught.value)
    assert "tensor ocannl:1 has precision" in str(caught.value)


def test_long_lists_are_cut_and_names_are_escaped(tmp_path: Path) -> None:
    nodes = [TensorNode(id=index, label=("\x1b[2J",)) for index in range(300)]
    path = tmp_path / "run.ckpt"
    training.save(context(nodes, seeds=range(200)), Progress(), nodes, path)
    with pytest.raises(ArgumentError) as caught:
        training.restore(context(nodes, seeds=range(200)), nodes[:1], path)
    assert str(caught.value).endswith("tensor ocannl:100 '\\x1b[2J' and 199 more")
    assert "\x1b" not in str(caught.value)
    with pytest.raises(ArgumentError, match=r"98, 99 and 100 more, this one has none"):
        training.restore(context(nodes, seeds=()), nodes, path)


def test_bad_files_are_format_errors(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    for name, data, rule in (
        ("version", content.replace(b"((version 2) (step", b"((version 3) (step"), "OCANNL-TRN-VERSION"),
        ("state", content.replace(b"(ocannl 1)))", b"(ocannl 8)))"), "OCANNL-TRN-ABSENT"),
    ):
        assert data != content, name
        bad = tmp_path / name
        bad.write_bytes(data)
        with pytest.raises(FormatError) as caught:
            training.restore(context(), (W, M), bad)
        assert caught.value.rule == rule
    with pytest.raises(FileNotFoundError):
        training.restore(context(), (W, M), tmp_path / "absent")


def version_1(path: Path) -> Path:
    document = decode(path)
    document["training"] |= {"version": 1, "seeds": None}
    older = path.with_name("older.ckpt")
    older.write_bytes(encode(document))
    return older


def test_a_record_without_seeds_is_restored_with_a_warning(saved: Path) -> None:
    older = version_1(saved)
    with pytest.warns(SeedsUncheckedWarning) as caught:
        restored, progress = training.restore(context(value=0.0, seeds=[1, 2, 3]), (W, M), older)
    told = "its training record, of version 1, does not tell the seeds: they cannot be checked"
    assert [str(warning.message) for warning in caught] == [f"{older}: {told}"]
    assert caught[0].filename == __file__
    assert issubclass(SeedsUncheckedWarning, UserWarning)
    assert same(restored, context())
    assert progress == Progress(step=3)
    with warnings.catch_warnings():  # what is not restored gives no warning
        warnings.simplefilter("error")
        with pytest.raises(ArgumentError, match="only saved"):
            training.restore(context(), [W], older)


def test_a_legacy_namespace_is_the_default_one(saved: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    content = saved.read_bytes()
    (size,) = struct.unpack_from(">i", content)
    header = (
        content[4 : 4 + size]
        .replace(b"(namespace ocannl)", b'(namespace "")    ')
        .replace(b"(ocannl 1)", b'("" 1)    ')
    )
    header = header.replace(b'(namespace "")    ', b'(namespace "")', 2).replace(b'("" 1)    ', b'("" 1)').ljust(size)
    older.write_bytes(content[:4] + header + content[4 + size :])
    restored, _ = training.restore(context(value=0.0), (W, M), older)
    assert same(restored, context())


def test_other_tensors_of_the_file_are_left_alone(saved: Path) -> None:
    everything = context((W, M, X))
    ocannl.save(everything, [X], saved, appending=True)
    restored, _ = training.restore(context((W, M, X), value=0.0), (W, M), saved)
    assert (restored[W].tolist(), restored[X].tolist()) == ([1, 1], [0, 0])


Atoms = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.binary(max_size=8))
Integers = st.integers(0, (1 << 62) - 1)


@settings(max_examples=50, deadline=None)
@given(
    st.builds(
        Progress,
        step=Integers,
        epoch=Integers,
        position=Integers,
        host_rng=st.none() | st.binary(max_size=50),
        extra=st.dictionaries(Atoms.map(lambda atom: Progress(extra=[(atom, "")]).extra[0][0]), Atoms),
    ),
    st.lists(st.integers(-(1 << 62), (1 << 62) - 1)),
    st.sets(st.tuples(Atoms.filter(len), st.integers(0, (1 << 62) - 1)), min_size=1, max_size=4),
)
def test_any_progress_round_trips(
    tmp_path_factory: pytest.TempPathFactory, progress: Progress, seeds: list[int], keys: set[tuple[Any, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.ckpt"
    nodes = {TensorNode(namespace=space, id=index) for space, index in keys}
    ctx = context(nodes, seeds=seeds)
    training.save(ctx, progress, nodes, path)
    restored, again = training.restore(context(nodes, value=0.0, seeds=seeds), nodes, path)
    assert again == progress
    assert all(restored[node] == 1 for node in nodes)
    assert validate(path).canonical
