"""Files that every reader reads, most of them exactly as a writer writes them."""

from __future__ import annotations

import functools
import struct

from ....spec.dtypes import OAM_CODES, OAM_DTYPES
from ....spec.layout import record_size
from ....spec.schema import OAM_MAX_RANK, OAM_NEWEST, OAM_OPTIMIZERS, OAM_PAGE, OAM_VERSIONS, OamIndex, OamTensor
from ..assemble import Image, T, config, optimizer, progress
from ..definition import CaseBook
from .parts import W, f32, image, minimal, ramp, valid_case

__all__ = ["define"]

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
I64_MIN, I64_MAX = -(1 << 63), (1 << 63) - 1

# Names that some reader, somewhere, has stumbled over. All are valid.
NAMES = {
    "one_byte": "w",
    "dotted": "encoder.layers.0.attention.query.weight",
    "space": " ",
    "spaces_around": "  w  ",
    "quotes": "a\"b'c\\d",
    "newline": "a\nb",
    "control": "a\x01\x1b[31mb\x7f",
    "slashes": "../../etc/passwd",
    "html": "<script>alert(1)</script>&amp;",
    "formula": "=1+1",
    "nfc": "caf\u00e9",
    "nfd": "cafe\u0301",
    "greek": "βάρος",
    "cyrillic": "вес",
    "arabic": "وزن",
    "hebrew": "משקל",
    "devanagari": "भार",
    "thai": "น้ำหนัก",
    "chinese": "权重",
    "japanese": "重みカナ",
    "korean": "가중치",
    "emoji": "👩‍🔬🏋️",
    "bom": "\ufeffw",
    "noncharacter": "a\uffff\U0010ffff",
    "bidi": "a\u202eb\u2066c",
    "zero_width": "a\u200b\u200db",
}

F32_BITS = {
    "quiet_nan": 0x7FC00000,
    "signalling_nan": 0x7F800001,
    "nan_payload": 0xFFC12345,
    "infinity": 0x7F800000,
    "minus_infinity": 0xFF800000,
    "minus_zero": 0x80000000,
    "denormal": 0x00000001,
    "largest": 0x7F7FFFFF,
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    _whole_files(book)
    _dtypes(book)
    _shapes(book)
    _quantized(book)
    _names(book)
    _optimizers(book)
    _numbers(book)
    _pages(book)
    _versions(book)


def _whole_files(book: CaseBook) -> None:
    add = functools.partial(valid_case, book)
    state = [T("s", "i32", (2,), ramp(8))]
    add("golden_minimal", "config and progress with their defaults", minimal(), "whole")
    add("golden_weights", "weights and optimizer", image(), "whole")
    add("golden_all_sections", "all five sections", image(state=state), "whole")
    add("golden_no_optimizer", "weights only", image(opt=None), "whole")
    add("golden_state_only", "state, no weights", image(weights=None, state=state, opt=None), "whole")
    add("golden_optimizer_only", "an optimizer, no tensors", image(weights=None), "whole")
    add(
        "golden_same_name", "the same name in weights and in state", image(state=[T("w", "u8", (1,), b"\x07")]), "names"
    )
    many = [T(f"layer.{at}.weight", "f32", (2,), f32(at, -at)) for at in range(64)]
    add("golden_many_tensors", "64 tensors", image(many, opt=None), "whole")
    twins = [T("a", "f32", (2,), f32(1, 2)), T("b", "f32", (2,), f32(1, 2))]
    add("golden_equal_payloads", "two tensors of equal content have a payload each", image(twins), "whole")
    for size in (1, 5, 256, 5000):
        conf = config(ramp(size, 0), architecture="ckptspec")
        add(f"golden_arch_config_{size}", f"arch_config of {size} bytes", image(opt=None, conf=conf), "config")
    for dtype in ("bf16", "i64", "c128"):
        code = OAM_CODES[dtype]
        conf = config(weight_dtype=code, state_dtype=OAM_CODES["u8"], compute_dtype=code)
        add(f"golden_config_dtype_{dtype}", f"the config's dtypes are {dtype} and u8", image(conf=conf), "config")


def _dtypes(book: CaseBook) -> None:
    for name, scalar in OAM_DTYPES.items():
        data = ramp(3 * scalar.size) if name != "bool" else b"\1\0\1"
        made = image([T("w", name, (3,), data)], [T("s", name, (3,), data[::-1])], opt=None)
        valid_case(book, f"golden_dtype_{name}", f"{name}: {scalar.doc}", made, f"dtype:{name}")
    every = [T(f"w.{name}", name, (2, 2), bytes(4 * scalar.size)) for name, scalar in OAM_DTYPES.items()]
    valid_case(book, "golden_dtypes_all", "every dtype in one file", image(every, every, opt=None), "dtypes")
    odd = [T("a", "u8", (1,), b"\1"), T("b", "f64", (2,), ramp(16)), T("c", "c128", (1,), ramp(16))]
    valid_case(book, "golden_odd_alignment", "payloads at odd addresses", image(odd, opt=None), "alignment")
    floats = struct.pack("<8I", *F32_BITS.values())
    made = image([T("w", "f32", (8,), floats), T("z", "c64", (4,), floats)], opt=None)
    valid_case(book, "golden_payload_special_floats", "NaN, infinities, -0 and denormals as elements", made, "floats")
    halves = struct.pack("<6H", 0x7C01, 0x7E00, 0x7C00, 0xFC00, 0x8000, 0x0001)
    made = image([T("h", "f16", (6,), halves), T("b", "bf16", (6,), halves)], opt=None)
    valid_case(book, "golden_payload_special_halves", "the same for f16 and bf16", made, "floats")


def _shapes(book: CaseBook) -> None:
    for rank in range(OAM_MAX_RANK + 1):
        shape = tuple((2, 1, 3, 1, 2, 1, 1, 2)[:rank])
        size = 4
        for extent in shape:
            size *= extent
        title = "a scalar" if not rank else f"rank {rank}"
        valid_case(book, f"golden_rank_{rank}", title, image([T("w", "f32", shape, ramp(size))]), "ranks")
    zero = {
        "0": (0,),
        "3_0": (3, 0),
        "0_3": (0, 3),
        "rank_8": (1, 2, 3, 0, 5, 6, 7, 8),
        "then_2_63": (0, 1 << 63),
        "2_63_then": (1 << 63, 0),
        "max_then": (U64, 0),
        "then_overflow": (0, 1 << 63, 4),
        "then_max": (0, U64),
    }
    for name, shape in zero.items():
        made = image([T("empty", "f32", shape, b""), W], opt=None)
        valid_case(book, f"golden_zero_{name}", f"no elements: {list(shape)}", made, "zero-elements")
    made = image([T("a", "f64", (0,), b"")], [T("b", "bool", (0, 5), b"")], opt=optimizer())
    valid_case(book, "golden_zero_only", "sections whose tensors all have no elements", made, "zero-elements")
    made = image([T("a", "u8", (2,), b"\1\2"), T("e", "c128", (0,), b""), T("b", "u8", (1,), b"\3")], opt=None)
    valid_case(book, "golden_zero_between", "a tensor without elements between two others", made, "zero-elements")


def _quantized(book: CaseBook) -> None:
    def codes(encoding: str, elements: int) -> bytes:
        blocks = -(-elements // 32)
        size = blocks * (16 if encoding == "q4" else 32)
        return ramp(size, 0x80) + f32(*(0.25 * (at + 1) for at in range(blocks)))

    for encoding in ("q4", "q8"):
        for elements in (1, 31, 32, 33, 64):
            made = image([T("w", "f32", (elements,), codes(encoding, elements), encoding)], opt=None)
            title = f"{encoding}, {elements} elements"
            valid_case(book, f"golden_{encoding}_{elements}", title, made, "quantized")
        made = image([T("w", "f32", (), codes(encoding, 1), encoding)], opt=None)
        valid_case(book, f"golden_{encoding}_scalar", f"{encoding}, a scalar", made, "quantized", "ranks")
        made = image([T("w", "f32", (5, 13), codes(encoding, 65), encoding)], opt=None)
        title = f"{encoding}: blocks run over the flattened tensor, not over rows"
        valid_case(book, f"golden_{encoding}_rows", title, made, "quantized")
    mixed = [W, T("q4", "f32", (4, 8), codes("q4", 32), "q4"), T("q8", "f32", (4, 8), codes("q8", 32), "q8"), T("b")]
    valid_case(book, "golden_quantized_mixed", "dense, q4 and q8 side by side", image(mixed, opt=None), "quantized")
    odd = ramp(16, 0xF0) + struct.pack("<I", 0x7F800001)
    made = image([T("w", "f32", (32,), odd, "q4")], opt=None)
    valid_case(book, "golden_quantized_nan_scale", "a scale may be any f32, here a signalling NaN", made, "quantized")
    tail = bytes(range(16)) + f32(-1.5)
    made = image([T("w", "f32", (3,), tail, "q4")], opt=None)
    title = "elements past the end of the tensor may have any code; the scale may be negative"
    valid_case(book, "golden_quantized_tail", title, made, "quantized")
    made = image([T("w", "f32", (32,), bytes([0x80]) * 32 + f32(1), "q8")], opt=None)
    valid_case(book, "golden_quantized_minus_128", "q8 code -128, which no writer makes", made, "quantized")


def _names(book: CaseBook) -> None:
    for name, text in NAMES.items():
        made = image([T(text, "f32", (1,), f32(1))])
        valid_case(book, f"golden_name_{name}", f"a tensor's name: {text!a}", made, "names")
    limits = {"127": "n" * 127, "126_wide": "é" * 63, "127_wide": "é" * 63 + "n", "125_emoji": "🏋" * 31 + "n"}
    for name, text in limits.items():
        made = image([T(text, "f32", (1,), f32(1))])
        title = f"a name of {len(text.encode())} bytes in {len(text)} characters"
        valid_case(book, f"golden_name_length_{name}", title, made, "names", "limits")
    near = [T(text, "u8", (1,), b"\1") for text in ("w", "W", "w ", "caf\u00e9", "cafe\u0301", "ẃ")]
    valid_case(book, "golden_names_near", "names are compared as bytes", image(near, opt=None), "names")
    prefix = [T("n" * size, "u8", (1,), b"\1") for size in (1, 2, 126, 127)]
    valid_case(book, "golden_names_prefixes", "names that begin as others do", image(prefix, opt=None), "names")
    for name, text in {"31": "a" * 31, "wide": "модель" * 2, "empty": "", "control": "a\tb"}.items():
        made = image(conf=config(architecture=text))
        valid_case(book, f"golden_architecture_{name}", f"architecture {text!a}", made, "names")
        made = image(prog=progress(metric_name=text))
        valid_case(book, f"golden_metric_{name}", f"metric name {text!a}", made, "names")


def _optimizers(book: CaseBook) -> None:
    for kind, moments in OAM_OPTIMIZERS.items():
        second = ramp(24, 9) if moments == 2 else b""
        made = image(opt=optimizer(ramp(24), second, kind=kind, step=7))
        valid_case(book, f"golden_optimizer_{kind.lower()}", f"{kind} with {moments} moments", made, "optimizer")
        made = image(opt=optimizer(kind=kind))
        valid_case(book, f"golden_optimizer_{kind.lower()}_empty", f"{kind} with empty moments", made, "optimizer")
    floats = struct.pack("<6I", *list(F32_BITS.values())[:6])
    made = image(opt=optimizer(floats, floats[::-1]))
    valid_case(book, "golden_moments_special_floats", "NaN and infinities in the moments", made, "optimizer", "floats")
    made = image(opt=optimizer(ramp(4 * 100)))
    valid_case(book, "golden_moments_unrelated", "more moments than weights", made, "optimizer")


def _numbers(book: CaseBook) -> None:
    for name, pattern in F32_BITS.items():
        made = image(
            opt=optimizer(
                ramp(24), learning_rate=pattern, beta1=pattern, beta2=pattern, epsilon=pattern, weight_decay=pattern
            )
        )
        valid_case(book, f"golden_optimizer_{name}", f"the optimizer's numbers are 0x{pattern:08x}", made, "floats")
        made = image(prog=progress(learning_rate=pattern, best_metric=pattern))
        valid_case(book, f"golden_progress_{name}", f"the progress's numbers are 0x{pattern:08x}", made, "floats")
    for name, step in {"min": I64_MIN, "max": I64_MAX, "minus_1": -1, "2_53": (1 << 53) + 1}.items():
        made = image(opt=optimizer(ramp(24), step=step), prog=progress(step=step))
        valid_case(book, f"golden_step_{name}", f"step {step}", made, "integers")
    for name, value in {"max": U64, "2_63": 1 << 63, "2_53": (1 << 53) + 1}.items():
        made = image(prog=progress(bytes_seen=value, env_steps=value - 1))
        valid_case(book, f"golden_counters_{name}", f"counters {value}", made, "integers")
    made = image(conf=config(config_version=U32, flags=U32 - 1, d_model=U32 - 2, n_layers=U32 - 3, d_vocab=U32 - 4))
    valid_case(book, "golden_config_max", "the config's numbers at their limits", made, "integers")
    made = image(conf=config(config_version=0, d_vocab=0))
    valid_case(book, "golden_config_zero", "the config's numbers are zero", made, "integers")
    valid_case(book, "golden_phase_255", "phase 255", image(prog=progress(phase=255)), "integers")
    made = image(prog=progress(lower_is_better=0, metric_name="accuracy"))
    valid_case(book, "golden_higher_is_better", "lower_is_better is false", made, "progress")


def _pages(book: CaseBook) -> None:
    head = record_size(OamIndex) + record_size(OamTensor)
    for size in (OAM_PAGE - 1, OAM_PAGE, OAM_PAGE + 1, 2 * OAM_PAGE):
        data = ramp(size - head)
        made = image([T("w", "u8", (len(data),), data)], opt=None)
        valid_case(book, f"golden_page_weights_{size}", f"a weights section of {size} bytes", made, "pages")
        made = image(None, [T("s", "u8", (len(data),), data)], opt=None)
        valid_case(book, f"golden_page_state_{size}", f"a state section of {size} bytes", made, "pages")


def _versions(book: CaseBook) -> None:
    state = [T("s", "i32", (2,), ramp(8))]
    every = [T(f"w.{name}", name, (2,), bytes(2 * scalar.size)) for name, scalar in OAM_DTYPES.items()]
    for version in OAM_VERSIONS:
        if version == OAM_NEWEST:
            continue

        def add(name: str, title: str, made: Image, version: int = version) -> None:
            label, tag = f"version {version}: {title}", f"version:{version}"
            valid_case(book, f"v{version}_{name}", label, made, tag, rules=("OAM-HDR-OLD",))

        add("minimal", "config and progress with their defaults", minimal(version))
        add("all_sections", "all five sections", image(state=state, version=version))
        add("dtypes", "every dtype", image(every, every, opt=None, version=version))
        add("muon", "Muon", image(opt=optimizer(ramp(24), b"", kind="Muon"), version=version))
        add("adam", "Adam", image(opt=optimizer(ramp(24), kind="Adam"), version=version))
        add("zero_elements", "no elements", image([T("e", "f32", (0, 1 << 63), b"")], opt=None, version=version))
        add("scalar", "a scalar", image([T("e", "f64", (), ramp(8))], opt=None, version=version))
        add("name_127", "a name of 127 bytes", image([T("n" * 127)], version=version))
        add("arch_config", "arch_config", image(conf=config(ramp(300, 0)), version=version))
