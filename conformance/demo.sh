#!/bin/sh
# What the project does, shown on a small file: write, validate, look into, break, diagnose, salvage; then the suite.
set -eu

DIR=${1:-demo}
rm -rf "$DIR"
mkdir -p "$DIR"

if [ -t 1 ]; then BOLD='\033[1m' PLAIN='\033[0m'; else BOLD= PLAIN=; fi
say() { printf "\n$BOLD%s$PLAIN\n" "== $*"; }
show() { # prints a command as it could be typed, and runs it
    printf '$'
    for word in "$@"; do
        case $word in
            *[!A-Za-z0-9_./=:-]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

say "1. Write a small model file"
python - "$DIR/model.oam" <<'PY'
import sys

import numpy as np

import ckptspec
from ckptspec.oam import Config, Model, Optimizer, Progress

rng = np.random.default_rng(0)
weights = {
    "embedding": rng.normal(size=(16, 8)).astype(np.float32),
    "output.bias": np.zeros(16, np.float32),
}
moments = sum(array.size for array in weights.values())
model = Model(
    config=Config(architecture="demo", d_model=8, d_vocab=16),
    weights=weights,
    state={"seen": np.array([True, False, True])},
    optimizer=Optimizer(step=100, first_moment=np.zeros(moments, np.float32), second_moment=np.ones(moments, np.float32)),
    progress=Progress(step=100, best_metric=2.5),
)
ckptspec.save(sys.argv[1], model)
print(f"wrote {sys.argv[1]}")
PY

say "2. Validate it"
show ckptspec validate --strict "$DIR/model.oam"

say "3. Look into it"
show ckptspec inspect "$DIR/model.oam"
say "   ... and at its bytes, field by field (an excerpt)"
show ckptspec inspect --hex --only optimizer. "$DIR/model.oam"

say "4. Break one byte of the weights"
python - "$DIR/model.oam" "$DIR/broken.oam" <<'PY'
import pathlib
import sys

data = bytearray(pathlib.Path(sys.argv[1]).read_bytes())
data[4800] ^= 0x40
pathlib.Path(sys.argv[2]).write_bytes(data)
print("byte 4800 is changed")
PY

say "5. What is wrong, and where?"
show ckptspec validate "$DIR/broken.oam" && { echo "the damage was not found"; exit 1; }

say "6. Save what survives"
show ckptspec salvage "$DIR/broken.oam" "$DIR/salvaged.oam"
cmp "$DIR/model.oam" "$DIR/salvaged.oam" && echo "the salvaged file is the original, byte for byte"

say "7. Another format: an OCANNL checkpoint, written and appended to by a program"
python - "$DIR/nodes.ckpt" <<'PY'
import sys

import numpy as np

from ckptspec import ocannl

registry = ocannl.Registry()
w = registry.create((2, 3), label=["w", "hidden"])
b = registry.create((3,), label=["b"], precision="double")
ctx = ocannl.Context({w: np.ones((2, 3), np.float32), b: np.zeros(3)}, registry=registry)
ocannl.save(ctx, [w], sys.argv[1])
ocannl.save(ctx, [b], sys.argv[1], appending=True)
PY
show ckptspec inspect "$DIR/nodes.ckpt"

say "8. Run the conformance suite: against the reference's command line as any decoder, then in this process"
show ckptspec conform --decoder "ckptspec decode --batch" --batch
show ckptspec conform

say "Done. The files are in $DIR/."
