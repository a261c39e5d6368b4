"""A training run that may be killed at any moment and ends with the same bits.

    python train.py run.ckpt              train; goes on from run.ckpt where it exists
    python train.py run.ckpt --steps 400  until that many steps are done

A small network learns to tell points inside a ring from points outside. Each piece of state is of another kind, and has
another way into the checkpoint; README.md walks through them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from typing import Any

import numpy as np

from ckptspec.ocannl import Context, Registry, TensorNode, host_rng, training
from ckptspec.ocannl.training import EarlyStopping, Loss, LossScaler, Progress, Routine, Segment, read, update, write

Array = np.ndarray[Any, np.dtype[Any]]

EXAMPLES, BATCH, HIDDEN, FEATURES = 192, 16, 24, 12
SEED = 42


class Program:
    """The model and its routines. Built in the same order each time, its nodes get the same ids each time."""

    def __init__(self) -> None:
        self.registry = registry = Registry()
        self.seed = registry.seed(SEED)

        def node(label: str, *dims: int) -> TensorNode:
            return registry.create(dims, precision="double", label=label.split())

        self.x, self.y = node("points", BATCH, 2), node("inside", BATCH, 1)  # inputs: set for each step
        self.rate = node("learning rate")
        self.features = node("features", 2, FEATURES)  # a parameter, but a frozen one
        self.w1, self.b1 = node("w 1", FEATURES, HIDDEN), node("b 1", HIDDEN)
        self.w2, self.b2 = node("w 2", HIDDEN, 1), node("b 2", 1)
        self.learned = (self.w1, self.b1, self.w2, self.b2)
        self.gradients = [node(f"gradient {p.id}", *p.dims) for p in self.learned]
        self.first = [node(f"first moment {p.id}", *p.dims) for p in self.learned]
        self.second = [node(f"second moment {p.id}", *p.dims) for p in self.learned]
        self.average = node("average loss")  # an accumulator: no parameter, and no moment of one

        self.loss = Loss([self.features, *self.learned])
        forward = [read(self.x), read(self.y), read(self.features), *map(read, self.learned), update(self.average)]
        step = [read(self.rate), *map(read, self.gradients), *map(update, [*self.first, *self.second, *self.learned])]
        self.routine = Routine(name="step", segments=[Segment([*forward, *map(write, self.gradients)]), Segment(step)])
        # Found by what the routine reads and writes. Inputs and gradients are not among it.
        self.state = training.training_state([self.routine], self.loss)

    def initial(self) -> Context:
        """Return the context of a new run."""
        rng = np.random.default_rng(self.seed)
        nodes = [node for node in self.registry if node in self.state]
        values: dict[TensorNode, Array] = {node: np.zeros(node.dims) for node in nodes}
        for node in (self.features, self.w1, self.w2):
            values[node] = rng.standard_normal(node.dims) / np.sqrt(node.dims[0])
        return Context(values, registry=self.registry)

    def gradient(self, ctx: Context, x: Array, y: Array, step: int, scale: float) -> tuple[float, list[Array]]:
        """Return the loss, and the gradients times ``scale`` in half precision, as a device would have them."""
        # Randomness of the device counts: it comes of the seed, the node and the step, and has no state to be saved.
        noise = np.random.Generator(np.random.Philox(counter=step, key=(self.seed, self.w1.id)))
        lifted = np.sin(3 * x @ ctx[self.features])
        hidden = np.maximum(lifted @ ctx[self.w1] + ctx[self.b1], 0)
        kept = hidden * (noise.random(hidden.shape) < 0.9)  # dropout
        p = 1 / (1 + np.exp(-(kept @ ctx[self.w2] + ctx[self.b2])))
        loss = -np.mean(y * np.log(p + 1e-12) + (1 - y) * np.log(1 - p + 1e-12))
        with np.errstate(over="ignore"):
            back = (scale * (p - y) / len(y)).astype(np.float16).astype(float)
            below = (back @ ctx[self.w2].T) * (kept > 0)
            made = (lifted.T @ below, below.sum(0), kept.T @ back, back.sum(0))
            return float(loss), [gradient.astype(np.float16).astype(float) for gradient in made]

    def optimize(self, ctx: Context, gradients: list[Array], step: int, rate: float) -> dict[TensorNode, Array]:
        """Return the values after a step of Adam."""
        values: dict[TensorNode, Array] = {}
        for p, m, v, g in zip(self.learned, self.first, self.second, gradients, strict=True):
            values[m] = 0.9 * ctx[m] + 0.1 * g
            values[v] = 0.99 * ctx[v] + 0.01 * g * g
            unbiased = values[m] / (1 - 0.9 ** (step + 1)), values[v] / (1 - 0.99 ** (step + 1))
            values[p] = ctx[p] - rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
        return values


def data() -> tuple[Array, Array]:
    """Return points, and whether they are inside the ring."""
    x = np.random.default_rng(SEED + 1).uniform(-1, 1, (EXAMPLES, 2))
    radius = np.hypot(x[:, :1], x[:, 1:])
    return x, ((radius > 0.4) & (radius < 0.9)).astype(float)


def train(path: str, steps: int, every: int, pause: float = 0) -> tuple[Program, Context, Progress]:
    """Train until ``steps`` steps are done; save after each ``every`` steps. Return the last context and progress."""
    program = Program()
    x, y = data()
    ctx = program.initial()
    scaler = LossScaler(scale=2.0**19, interval=40)
    stopping = EarlyStopping(patience=1000)
    progress = Progress(host_rng=host_rng.capture(np.random.default_rng(SEED + 2)))

    if os.path.exists(path):
        ctx, progress = training.restore(ctx, program.state, path)
        scaler = scaler.from_extra(progress, "loss_scale")
        stopping = stopping.from_extra(progress, "early_stopping")
        print(f"resumed at step {progress.step}", flush=True)

    step, epoch, position = progress.step, progress.epoch, progress.position
    # The generator is saved as it was when the epoch began: the same shuffle gives the same order, and position says
    # how much of it is done.
    at_start = progress.host_rng
    rng = progress.generator(np.random.Generator)
    order = rng.permutation(EXAMPLES)

    while step < steps and not stopping.stop:
        if position + BATCH > EXAMPLES:
            epoch, position, at_start = epoch + 1, 0, host_rng.capture(rng)
            order = rng.permutation(EXAMPLES)
        rows = order[position : position + BATCH]
        rate = 0.02 * 0.5 ** (step / 150)  # scheduled: computed from step, not saved
        loss, gradients = program.gradient(ctx, x[rows], y[rows], step, scaler.scale)
        values: dict[TensorNode, Array] = {program.average: np.asarray(0.9 * ctx[program.average] + 0.1 * loss)}
        overflow = not all(np.isfinite(gradient).all() for gradient in gradients)
        if not overflow:
            values |= program.optimize(ctx, [gradient / scaler.scale for gradient in gradients], step, rate)
        ctx = ctx.updated(values)
        scaler, stopping = scaler.after(overflow=overflow), stopping.after(loss)
        step, position = step + 1, position + BATCH
        progress = Progress(
            step=step,
            epoch=epoch,
            position=position,
            host_rng=at_start,
            extra=[scaler.to_extra("loss_scale"), stopping.to_extra("early_stopping")],
        )
        if step % every == 0 or step == steps or stopping.stop:
            training.save(ctx, progress, program.state, path)
            print(f"saved step {step}, average loss {ctx[program.average]:.4f}", flush=True)
        time.sleep(pause)
    return program, ctx, progress


def digest(program: Program, ctx: Context, progress: Progress) -> str:
    """Return a hash of every bit that the run ends with."""
    made = hashlib.sha256(repr(progress).encode())
    for node in program.state:
        made.update(np.ascontiguousarray(ctx[node]).tobytes())
    return made.hexdigest()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Train; go on from the checkpoint where it exists.")
    parser.add_argument("checkpoint")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=7, help="steps between two checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to sleep after each step")
    options = parser.parse_args()
    program, ctx, progress = train(options.checkpoint, options.steps, options.every, options.pause)
    print(f"step {progress.step}, epoch {progress.epoch}, average loss {ctx[program.average]:.4f}")
    print(f"digest {digest(program, ctx, progress)}")


if __name__ == "__main__":
    main()
