"""Writes a second .oam file with other weights under the same checksums: FNV-1a is no protection against anybody.

    python forge.py model.oam forged.oam

The first f32 weight of at least ten elements gets another first element, and nine more that put the checksum right
again. All else stays, the checksums that the file states included: no reader can tell.

With t the low byte of a state, an element that leads from low byte t to low byte t adds a number of its own to the
hash, whatever the others are (the module ``ckptspec.checksum`` has the reason). So nine elements are sought whose
numbers add up to what is missing: one that leads to the low byte that the hash must end in, and eight from a table of
65,536 each. They are put together in pairs, of which those are kept whose sums agree in 16 bits; then in fours; then in
eights.
"""

import sys
from pathlib import Path

import numpy as np

import ckptspec
from ckptspec.checksum import FNV_PRIME, fnv1a64
from ckptspec.formats import module_of
from ckptspec.source import BufferSource

MODULUS = 1 << 64
TOP = 0x3D  # the upper byte of every element: numbers between 0.03 and 0.13
BACK = pow(FNV_PRIME, -1, 256)  # undoes a step of the low byte


def elements(low: int, end: int) -> np.ndarray:
    """Return all elements that lead from one low byte to another: their bytes, of shape (65536, 4)."""
    bytes_ = np.zeros((1 << 16, 4), np.uint8)
    bytes_[:, 0], bytes_[:, 1], bytes_[:, 3] = np.arange(1 << 16) & 0xFF, np.arange(1 << 16) >> 8, TOP
    state = np.full(1 << 16, low)
    for place in (0, 1):
        state = (state ^ bytes_[:, place]) * (FNV_PRIME % 256) & 0xFF
    bytes_[:, 2] = state ^ ((end * BACK & 0xFF ^ TOP) * BACK & 0xFF)
    return bytes_


def hashes(bytes_: np.ndarray, state: int) -> np.ndarray:
    """Return the hash of each row, begun in a state."""
    made = np.full(len(bytes_), state, np.uint64)
    for column in bytes_.T:
        made = (made ^ column) * np.uint64(FNV_PRIME)
    return made


def matches(one: np.ndarray, other: np.ndarray, first: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of pairs whose sum has zeros in ``bits`` bits from ``first`` on."""
    mask = np.uint64((1 << bits) - 1)
    wanted, there = (-one >> np.uint64(first)) & mask, (other >> np.uint64(first)) & mask
    order = np.argsort(there, kind="stable")
    start, stop = (np.searchsorted(there[order], wanted, side) for side in ("left", "right"))
    count = stop - start
    left = np.repeat(np.arange(len(one)), count)
    within = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count)
    return left, order[np.repeat(start, count) + within]


def nine(before: int, after: int) -> bytes:
    """Return 36 bytes that lead from one state of the hash to another."""
    low = after & 0xFF
    table = elements(low, low)
    adds = hashes(table, low) - np.uint64(low)
    for first in elements(before & 0xFF, low):
        state = fnv1a64(first.tobytes(), before)
        missing = (after - low - (state - low) * pow(FNV_PRIME, 32, MODULUS)) % MODULUS
        level = [
            (adds * np.uint64(pow(FNV_PRIME, 4 * (7 - place), MODULUS)), np.arange(1 << 16)[:, None])
            for place in range(8)
        ]
        level[7] = level[7][0] - np.uint64(missing), level[7][1]
        for at, bits in ((8, 16), (24, 16), (40, 24)):  # the lowest eight bits are zero already
            joined = []
            for (one, ways), (other, others) in zip(level[::2], level[1::2], strict=True):
                left, right = matches(one, other, at, bits)
                joined.append((one[left] + other[right], np.hstack([ways[left], others[right]])))
            level = joined
        ways = level[0][1]
        if len(ways):
            return first.tobytes() + table[ways[0]].tobytes()
    raise SystemExit("no luck, which nearly never happens")


def main() -> None:
    """Forge a file."""
    source, target = sys.argv[1:]
    data = bytearray(Path(source).read_bytes())
    regions = {region.path: region for region in module_of("oam").regions(BufferSource(bytes(data)))}
    model = ckptspec.loads(bytes(data))
    large = (at for at, array in enumerate(model.weights.values()) if array.dtype == "<f4" and array.size >= 10)
    row = next(large, None)
    if row is None:
        print(f"{source}: no f32 weight of at least ten elements", file=sys.stderr)
        raise SystemExit(2)
    start = min(region.offset for path, region in regions.items() if path.startswith("weights"))
    place = regions[f"weights[{row}].data"].offset
    end = place + 40
    after = fnv1a64(data[start:end])
    data[place : place + 4] = np.float32(1e6).tobytes()
    data[place + 4 : end] = nine(fnv1a64(data[start : place + 4]), after)
    Path(target).write_bytes(data)


if __name__ == "__main__":
    main()
