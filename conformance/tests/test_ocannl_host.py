"""What a training checkpoint keeps of the host: the state of random generators, and that of a loop's helpers."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptspec import ArgumentError
from ckptspec.ocannl import Context, TensorNode, host_rng, host_state, training
from ckptspec.ocannl.host_state import EarlyStopping, HostState, LossScaler, OutlierDetector
from ckptspec.ocannl.training import Progress

W = TensorNode(id=0, dims=(2,))
keepers: Any = host_state  # for calls that mypy refuses, too


def context() -> Context:
    return Context({W: np.ones(2, np.float32)})


def through_a_file(progress: Progress, directory: Path) -> Progress:
    training.save(context(), progress, [W], directory / "run.ckpt")
    return training.restore(context(), [W], directory / "run.ckpt")[1]


# --------------------------------------------------------------------------------------------------------- generators

BITS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
KINDS: tuple[Any, ...] = (random.Random, np.random.Generator, np.random.RandomState)


def generators(seed: int) -> list[Any]:
    """One generator of each kind that is known."""
    return [
        random.Random(seed),
        *(np.random.Generator(getattr(np.random, name)(seed)) for name in BITS),
        *(np.random.RandomState(getattr(np.random, name)(seed)) for name in BITS),
        np.random.RandomState(seed % (1 << 32)),
    ]


def draw(generator: Any, what: int) -> Any:
    if isinstance(generator, random.Random):
        draws: list[Callable[[], Any]] = [
            generator.random,
            lambda: generator.gauss(0, 1),
            lambda: generator.getrandbits(70),
            lambda: generator.sample(range(50), 9),
        ]
        return draws[what]()
    draws = [
        lambda: generator.random() if isinstance(generator, np.random.Generator) else generator.random_sample(),
        lambda: generator.standard_normal(),
        lambda: int(generator.integers(9, dtype=np.uint32) if hasattr(generator, "integers") else generator.randint(9)),
        lambda: generator.permutation(20).tolist(),
    ]
    return draws[what]()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 64), st.lists(st.integers(0, 3), max_size=20), st.integers(0, 700))
def test_a_rebuilt_generator_goes_on_with_the_same_stream(seed: int, before: list[int], burn: int) -> None:
    for generator in generators(seed):
        kind = next(kind for kind in KINDS if isinstance(generator, kind))
        for _ in range(burn):
            draw(generator, 0)
        for what in before:
            draw(generator, what)
        state = host_rng.capture(generator)
        again = host_rng.rebuild(state, kind)
        assert type(again) is kind
        assert again is not generator
        assert host_rng.capture(again) == state == host_rng.capture(generator)
        expected = [draw(generator, what) for what in (2, 1, 1, 1, 0, 3, 2, 2, 2)]
        assert [draw(again, what) for what in (2, 1, 1, 1, 0, 3, 2, 2, 2)] == expected
        third = host_rng.rebuild(state, kind)  # fresh each time
        assert [draw(third, what) for what in (2, 1, 1)] == expected[:3]


def test_a_pending_gauss_is_kept_exactly() -> None:
    for gauss in (0.1, -0.0, math.inf, 5e-324, None):
        generator = random.Random(1)
        generator.setstate((*generator.getstate()[:2], gauss))
        assert host_rng.rebuild(host_rng.capture(generator), random.Random).getstate() == generator.getstate()
    legacy = np.random.RandomState(1)
    legacy.standard_normal()
    again = host_rng.rebuild(host_rng.capture(legacy), np.random.RandomState)
    assert again.standard_normal() == legacy.standard_normal()


def test_the_global_generators() -> None:
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        random.seed(3)
        np.random.seed(3)
        mine, numpys = host_rng.capture(random), host_rng.capture(np.random)
        expected = random.random(), np.random.random_sample()
        assert expected == (random.Random(3).random(), np.random.RandomState(3).random_sample())
        random.setstate(host_rng.rebuild(mine, random.Random).getstate())
        np.random.set_state(host_rng.rebuild(numpys, np.random.RandomState).get_state())
        assert (random.random(), np.random.random_sample()) == expected
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)


def test_a_generator_goes_through_a_checkpoint(tmp_path: Path) -> None:
    for generator in generators(11):
        again = through_a_file(Progress(host_rng=host_rng.capture(generator)), tmp_path)
        rebuilt = again.generator(type(generator))
        assert draw(rebuilt, 3) == draw(generator, 3)


def test_no_generator_is_made_of_no_state() -> None:
    with pytest.raises(ArgumentError, match=r"^state: found None, expected the bytes .*; there is none"):
        Progress().generator(random.Random)


def test_one_kind_is_not_rebuilt_from_the_state_of_another() -> None:
    for generator in generators(1):
        state = host_rng.capture(generator)
        for kind in KINDS:
            if not isinstance(generator, kind):
                with pytest.raises(ArgumentError, match=r"^state: found the state of a .*, expected that of a "):
                    host_rng.rebuild(state, kind)
    with pytest.raises(ArgumentError) as caught:
        host_rng.rebuild(host_rng.capture(np.random.default_rng(1)), random.Random)
    told = "state: found the state of a numpy.random.Generator with PCG64, expected that of a random.Random"
    assert str(caught.value) == told


def test_children_of_a_rebuilt_generator_are_refused_rather_than_others() -> None:
    rebuilt = host_rng.rebuild(host_rng.capture(np.random.default_rng(1)), np.random.Generator)
    with pytest.raises(TypeError, match="spawn"):
        rebuilt.spawn(1)


def test_what_cannot_be_captured_is_named() -> None:
    class Loaded(random.Random):
        def random(self) -> float:
            return 0.5

    class Mine(np.random.PCG64):
        pass

    gauss = random.Random(1)
    gauss.setstate((*gauss.getstate()[:2], 1))
    bad: list[tuple[Any, str]] = [
        (Loaded(), "found Loaded, expected a random.Random, numpy.random.Generator or numpy.random.RandomState"),
        (random.SystemRandom(), "found SystemRandom, expected"),
        (np.random.Generator(Mine(1)), "found a Generator with 'Mine', which is not numpy's own"),
        (np.random.PCG64(1), "found PCG64, expected"),
        (random.Random, "found type, expected"),
        (None, "found None, expected"),
        (gauss, "its gauss_next is 1, expected a float or None"),
    ]
    for generator, message in bad:
        with pytest.raises(ArgumentError, match=message):
            host_rng.capture(generator)


def changed(data: bytes, at: int, size: int, value: int) -> bytes:
    at %= len(data)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def test_bytes_that_are_no_state_are_refused() -> None:
    mersenne = host_rng.capture(random.Random(1))
    pcg, philox, twister, legacy = (
        host_rng.capture(generator)
        for generator in (
            np.random.default_rng(1),
            np.random.Generator(np.random.Philox(1)),
            np.random.Generator(np.random.MT19937(1)),
            np.random.RandomState(1),
        )
    )
    python, generator, state = KINDS
    bad: list[tuple[Any, Any, str]] = [
        (b"", python, "begins no state that is known"),
        (b"\x80\x04\x95cos\nsystem\n", python, "begins no state that is known"),
        (mersenne[:-1], python, "found 2508 bytes of a random.Random, expected 2509"),
        (mersenne + b"\0", python, "found 2510 bytes of a random.Random, expected 2509"),
        (mersenne.replace(b"/1:", b"/2:", 1), python, "found version 2 of a random.Random, expected version 1"),
        (mersenne.replace(b"/1:", b"/" + b"9" * 5000 + b":", 1), python, "begins no state that is known"),
        (changed(mersenne, -13, 4, 625), python, "its pos is 625, expected 0 to 624"),
        (changed(mersenne, -9, 1, 2), python, "its has_gauss is 2, expected 0 to 1"),
        (changed(mersenne, -8, 8, 5), python, "has_gauss is 0, and there is a gauss"),
        (changed(twister, -4, 4, (1 << 32) - 1), generator, "its pos is 4294967295, expected 0 to 624"),
        (changed(legacy, -13, 4, 625), state, "its pos is 625, expected 0 to 624"),
        (changed(pcg, -5, 1, 2), generator, "its has_uint32 is 2, expected 0 to 1"),
        (changed(philox, -6, 1, 5), generator, "its buffer_pos is 5, expected 0 to 4"),
        (pcg.replace(b"PCG64", b"PCG65"), generator, "begins no state that is known"),
        (b"lxm1:" + bytes(32), python, "it is a state of OCaml 5's generator, which Python does not have"),
        ("random.Random/1:", python, "found 'random.Random/1:', expected the bytes of a generator's state"),
        (None, python, "found None, expected the bytes of a generator's state; there is none"),
    ]
    for data, kind, message in bad:
        with pytest.raises(ArgumentError) as caught:
            host_rng.rebuild(data, kind)
        assert message in str(caught.value), data
    for kind in (random.SystemRandom, np.random.PCG64, int, None, [], random):
        with pytest.raises(ArgumentError, match=r"^kind: found .*, expected random.Random"):
            host_rng.rebuild(mersenne, kind)  # type: ignore[type-var, arg-type]


Damage = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 11), Damage, st.integers(-3, 3))
def test_hostile_bytes_give_a_generator_or_an_argument_error(which: int, damage: Any, longer: int) -> None:
    data = bytearray(host_rng.capture(generators(1)[which]))
    for at, value in damage:
        data[(at * 7 if at % 2 else -1 - at) % len(data)] = value
    hostile = bytes(data[: len(data) + longer]) + bytes(max(longer, 0))
    assert isinstance(host_rng.describe(hostile), str)
    for kind in KINDS:
        try:
            made = host_rng.rebuild(hostile, kind)
        except ArgumentError:
            continue
        draw(made, 3)
        draw(made, 1)


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda data: b"lxm1:" + data))
def test_any_bytes_are_described(data: bytes) -> None:
    assert host_rng.describe(data)
    with pytest.raises(ArgumentError):
        host_rng.rebuild(data, random.Random)


def test_a_state_of_ocaml_is_recognised() -> None:
    state = b"lxm1:" + struct.pack("<4Q", 1, 0xFEDCBA9876543210, 3, (1 << 64) - 1)
    assert len(state) == 37
    assert host_rng.ocaml_words(state) == (1, 0xFEDCBA9876543210, 3, (1 << 64) - 1)
    assert host_rng.describe(state) == (
        "OCaml 5's generator: 0x0000000000000001 0xfedcba9876543210 0x0000000000000003 0xffffffffffffffff"
    )
    with pytest.raises(ArgumentError, match="found 36 bytes, expected 37"):
        host_rng.ocaml_words(state[:-1])
    with pytest.raises(ArgumentError, match="expected a state of OCaml 5's generator"):
        host_rng.ocaml_words(b"lxm2:" + bytes(32))


def test_states_are_described() -> None:
    generator = random.Random(1)
    assert host_rng.describe(host_rng.capture(generator)) == (
        "random.Random: key of 624 words, pos 624, has_gauss 0, gauss 0.0"
    )
    assert host_rng.describe(b"\x1b").startswith("1 bytes that cannot be rebuilt: state: ")
    told = host_rng.describe(host_rng.capture(np.random.Generator(np.random.Philox(1))))
    assert told.startswith("numpy.random.Generator with Philox: counter 0x0000000000000000 0x")
    assert told.endswith("buffer_pos 4, has_uint32 0, uinteger 0x0")


def test_the_bytes_of_a_state_do_not_change_between_releases() -> None:
    """Checkpoints outlive releases: these are what version 1 of the states is."""
    generator = np.random.Generator(np.random.SFC64(0))
    generator.bit_generator.state = {
        "bit_generator": "SFC64",
        "state": {"state": np.array([1, 2, 3, 4], np.uint64)},
        "has_uint32": 1,
        "uinteger": 0x01020304,
    }
    words = b"".join(word.to_bytes(8, "little") for word in (1, 2, 3, 4))
    assert host_rng.capture(generator) == b"numpy.random.Generator/SFC64/1:" + words + b"\x01\x04\x03\x02\x01"
    twister = random.Random(1)
    twister.setstate((3, (*range(624), 7), 1.0))
    expected = b"".join(word.to_bytes(4, "little") for word in (*range(624), 7)) + b"\x01" + struct.pack("<d", 1)
    assert host_rng.capture(twister) == b"random.Random/1:" + expected


# -------------------------------------------------------------------------------------------------- state on the host

FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@given(POSITIVE, POSITIVE, POSITIVE, st.integers(1, 1 << 40), st.data())
def test_loss_scalers_round_trip(growth: float, backoff: float, scale: float, interval: int, data: Any) -> None:
    fresh = LossScaler(growth=growth, backoff=backoff, interval=interval)
    kept = replace(fresh, scale=scale, good_steps=data.draw(st.integers(0, interval - 1)))
    assert fresh.from_extra(Progress(extra=[kept.to_extra("k")]), "k") == kept


@given(st.lists(FINITE, max_size=8), FINITE, st.floats(allow_nan=False), st.integers(0, 9))
def test_the_others_round_trip_too(window: list[float], margin: float, best: float, waited: int) -> None:
    detector = OutlierDetector(size=8, threshold=3)
    kept = replace(detector, window=tuple(window))
    stopping = EarlyStopping(patience=5, margin=abs(margin))
    waiting = replace(stopping, best=best, waited=waited)
    progress = Progress(extra=[kept.to_extra("d"), waiting.to_extra("s")])
    again = detector.from_extra(progress, "d")
    assert [value.hex() for value in again.window] == [value.hex() for value in window]
    assert stopping.from_extra(progress, b"s") == waiting


def test_state_on_the_host_goes_through_a_checkpoint(tmp_path: Path) -> None:
    scaler = LossScaler(interval=10, scale=0.1, good_steps=3)
    assert scaler.to_extra("loss_scale") == (
        "loss_scale",
        "LossScaler growth=2.0 backoff=0.5 interval=10 scale=0.1 good_steps=3",
    )
    progress = through_a_file(Progress(extra=[scaler.to_extra("loss_scale")]), tmp_path)
    assert LossScaler(interval=10).from_extra(progress, "loss_scale") == scaler
    other = LossScaler(interval=10, scale=4)
    assert other.from_extra(progress, "another key") is other  # a file without the key restores


def test_other_parameters_and_other_texts_are_refused() -> None:
    scaler = LossScaler(interval=10)
    good = str(scaler.to_extra("k")[1])
    stopping, detector = EarlyStopping(patience=1), OutlierDetector(size=2)
    bad: list[tuple[HostState, Any, str]] = [
        (
            replace(scaler, interval=20),
            good,
            "extra['k']: it was kept with interval=10, this LossScaler has interval=20",
        ),
        (replace(scaler, growth=1.5), good, "it was kept with growth=2.0, this LossScaler has growth=1.5"),
        (stopping, good, "expected the state of an EarlyStopping"),
        (scaler, "1024.", "found '1024.', expected the state of a LossScaler"),
        (scaler, b"\xff", "found b'\\xff', expected the state of a LossScaler"),
        (scaler, good + " more=1", "expected growth, backoff, interval, scale, good_steps"),
        (
            scaler,
            good.replace("scale=65536.0", "scale=0.0"),
            "extra['k']: scale: found 0.0, expected a positive finite number",
        ),
        (scaler, good.replace("scale=65536.0", "scale=65536"), "not spelled as a LossScaler spells it"),
        (scaler, good.replace("scale=65536.0", "scale=6_5536.0"), "not spelled as a LossScaler spells it"),
        (scaler, good.replace("scale=65536.0", "scale=nan"), "expected a number"),
        (scaler, good.replace("scale=65536.0", "scale="), "found '', expected a number"),
        (
            scaler,
            good.replace("good_steps=0", "good_steps=10"),
            "good_steps: found 10, expected less than the interval",
        ),
        (scaler, good.replace("good_steps=0", "good_steps=-1"), "good_steps: found -1, expected 0 to"),
        (scaler, good.replace("good_steps=0", "good_steps=" + "9" * 5000), "expected a number"),
        (scaler, good.replace("good_steps=0", "good_steps=+1"), "expected a number"),
        (scaler, good.replace("good_steps=0", "good_steps=٣"), "expected a number"),
        (detector, "OutlierDetector size=2 threshold=6.0 window=1.0,2.0,3.0", "expected at least 1 and the 3 values"),
        (detector, "OutlierDetector size=2 threshold=6.0 window=1.0,", "expected a number"),
        (detector, "OutlierDetector size=2 threshold=6.0 window=inf", "expected finite numbers"),
    ]
    for kept, text, message in bad:
        with pytest.raises(ArgumentError) as caught:
            kept.from_extra(Progress(extra={"k": text}), "k")
        assert message in str(caught.value)


@given(st.text(max_size=60) | st.text("LossScalergrowth=.0123456789 backifntevdps", max_size=90))
def test_hostile_texts_give_an_argument_error(text: str) -> None:
    progress = Progress(extra=[(b"k", text.encode("utf-8", "replace"))])
    for kept in (LossScaler(), EarlyStopping(patience=1), OutlierDetector(size=2)):
        with pytest.raises(ArgumentError):
            kept.from_extra(progress, "k")


def test_parameters_are_checked() -> None:
    bad: list[tuple[Callable[[], object], str]] = [
        (lambda: keepers.LossScaler(growth=0), "^growth: found 0.0"),
        (lambda: keepers.LossScaler(scale=math.inf), "^scale: found inf"),
        (lambda: keepers.LossScaler(interval=0), "^good_steps: found 0, expected less"),
        (lambda: keepers.LossScaler(interval=1.5), "^interval: found 1.5, expected an integer"),
        (lambda: keepers.LossScaler(scale="1"), "^scale: found '1', expected a number"),
        (lambda: keepers.LossScaler(scale=10**400), "^scale: found an integer of 1329 bits, expected a number"),
        (lambda: keepers.EarlyStopping(patience=-1), "^patience: found -1"),
        (lambda: keepers.EarlyStopping(patience=1, margin=-1), "^margin: found -1.0"),
        (lambda: keepers.EarlyStopping(patience=1, best=math.nan), "^best: found nan"),
        (lambda: keepers.OutlierDetector(size=0), "^size: found 0"),
        (lambda: keepers.OutlierDetector(size=3, window="abc"), "^window: found 'abc', expected numbers"),
        (lambda: keepers.OutlierDetector(size=3, window=5), "^window: found 5, expected numbers"),
    ]
    for call, message in bad:
        with pytest.raises(ArgumentError, match=message):
            call()


def test_a_loss_scaler_backs_off_and_grows() -> None:
    scaler = LossScaler(interval=3, scale=8)
    scaler = scaler.after(overflow=False).after(overflow=False)
    assert (scaler.scale, scaler.good_steps) == (8, 2)
    assert scaler.after(overflow=False) == LossScaler(interval=3, scale=16)
    assert scaler.after(overflow=True) == LossScaler(interval=3, scale=4)
    assert LossScaler(interval=1, scale=1e308).after(overflow=False).scale == 1e308
    assert LossScaler(scale=5e-324).after(overflow=True).scale == 5e-324


def test_early_stopping_waits() -> None:
    stopping = EarlyStopping(patience=2, margin=0.5)
    for loss, waited in ((3, 0), (2.6, 1), (2.4, 0), (math.nan, 1), (2.2, 2)):
        assert not stopping.stop
        stopping = stopping.after(loss)
        assert stopping.waited == waited
    assert stopping.stop
    assert stopping.best == 2.4
    assert stopping.after(float(np.float32(1))).best == 1


def test_an_outlier_is_seen_and_not_kept() -> None:
    detector = OutlierDetector(size=4, threshold=3)
    assert detector.is_outlier(math.nan)
    assert detector.after(math.inf) is detector
    for value in (1, 2, 1, 2):
        assert not detector.is_outlier(100)
        detector = detector.after(value)
    assert [detector.is_outlier(value) for value in (3, 3.001, 0, -0.001)] == [False, True, False, True]
    assert detector.after(100) is detector
    assert detector.after(2.5).window == (2, 1, 2, 2.5)


@dataclass(frozen=True, kw_only=True)
class Curriculum(HostState):
    """A loop's own."""

    KEPT: ClassVar[tuple[str, ...]] = ("level",)

    levels: tuple[float, ...]
    level: int = 0


def test_a_loop_may_make_its_own() -> None:
    mine = Curriculum(levels=(0.5, 1))
    pair = replace(mine, level=1).to_extra("c")
    assert pair == ("c", "Curriculum levels=0.5,1.0 level=1")
    assert mine.from_extra(Progress(extra=[pair]), "c").level == 1
    with pytest.raises(ArgumentError, match=r"kept with levels=0\.5,1\.0, this Curriculum has levels=0\.5"):
        Curriculum(levels=(0.5,)).from_extra(Progress(extra=[pair]), "c")
