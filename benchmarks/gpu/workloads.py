"""Two models that people train on GPUs, against Keras on JAX and torch.compile: python -m benchmarks.gpu.workloads

resnet   a training step of ResNet-50, batch 128, images of 224 x 224 x 3, channels last, bfloat16 with float32 weights
lstm     a training step of an LSTM of 512 units over 100 steps, batch 128, 128 features, float32

gradtape and JAX run the same Keras model by `fit`, PyTorch its own by a loop; each gets NumPy arrays, which it brings
to the device in every step. Milliseconds of a step: the best of three epochs after the first one. Every library runs in
a process of its own. Nothing is asserted; `--small` is for a machine without an accelerator.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

LIBRARIES, WORKLOADS = ("gradtape", "jax", "torch"), ("resnet", "lstm")
STEPS, EPOCHS = 8, 3


def data(workload: str, small: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs, labels and the size of a batch; an epoch has `STEPS` of them."""
    rng = np.random.default_rng(0)
    batch = 2 if small else 128
    shape = {"resnet": (32, 32, 3) if small else (224, 224, 3), "lstm": (5, 4) if small else (100, 128)}[workload]
    x = rng.standard_normal((batch * STEPS, *shape), dtype=np.float32)
    return x, rng.integers(0, 10, batch * STEPS), batch


def keras_epoch(library: str, workload: str, small: bool) -> Callable[[], Any]:
    """An epoch of `fit`."""
    os.environ["KERAS_BACKEND"] = library
    if library == "gradtape":
        import gradtape  # noqa: F401 - it is the backend
    import keras

    keras.utils.set_random_seed(0)
    if workload == "resnet":
        keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
        shape = (32, 32, 3) if small else (224, 224, 3)
        model = keras.applications.ResNet50(weights=None, input_shape=shape, classes=10, classifier_activation=None)
    else:
        layers = [keras.layers.LSTM(16 if small else 512), keras.layers.Dense(10)]
        model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)
    x, y, batch = data(workload, small)
    return lambda: model.fit(x, y, batch_size=batch, epochs=1, verbose=0, shuffle=False).history["loss"][-1]


def torch_epoch(workload: str, small: bool) -> Callable[[], Any]:
    """The same by a loop over a compiled step."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    x, y, batch = data(workload, small)
    half = workload == "resnet"
    model: Any
    if half:
        import torchvision

        model = torchvision.models.resnet50(num_classes=10).to(device, memory_format=torch.channels_last)
        inputs = torch.from_numpy(x).permute(0, 3, 1, 2)  # channels last in memory
    else:

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.lstm = torch.nn.LSTM(x.shape[-1], 16 if small else 512, batch_first=True)
                self.dense = torch.nn.Linear(16 if small else 512, 10)

            def forward(self, x: Any) -> Any:
                return self.dense(self.lstm(x)[0][:, -1])

        model, inputs = Net().to(device), torch.from_numpy(x)
    labels = torch.from_numpy(y)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    forward = model if small else torch.compile(model)

    def epoch() -> float:
        for i in range(0, len(labels), batch):
            a, b = (t[i : i + batch].to(device, non_blocking=True) for t in (inputs, labels))
            with torch.autocast(device, torch.bfloat16, enabled=half):
                loss = torch.nn.functional.cross_entropy(forward(a).float(), b)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return float(loss)

    return epoch


def measure(library: str, workload: str, small: bool) -> dict[str, Any]:
    """Seconds of the first epoch, milliseconds of a step in the best of the others, the last loss."""
    epoch = torch_epoch(workload, small) if library == "torch" else keras_epoch(library, workload, small)
    began = time.perf_counter()
    epoch()
    first = time.perf_counter() - began
    times = []
    for _ in range(EPOCHS):
        began = time.perf_counter()
        loss = epoch()
        times.append(time.perf_counter() - began)
    return {"first_s": first, "ms": min(times) / STEPS * 1e3, "loss": loss}


def main() -> None:
    names = [f"{workload}.{library}" for workload, library in product(WORKLOADS, LIBRARIES)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=f"some of {', '.join(names)} (default: all)")
    parser.add_argument("--small", action="store_true", help="small arrays, to see that all is well")
    parser.add_argument("--alone", action="store_true", help="in this process, and only its numbers, as JSON")
    arguments = parser.parse_args()
    chosen = arguments.program or names
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(names)}")
    if arguments.alone:
        workload, library = chosen[0].split(".")
        print(json.dumps(measure(library, workload, arguments.small)))
        return
    for name in chosen:
        command = [sys.executable, "-m", "benchmarks.gpu.workloads", name, "--alone", *["--small"] * arguments.small]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode:
            print(f"{name:<16} failed", flush=True)
            continue
        found = json.loads(run.stdout.splitlines()[-1])
        print(
            f"{name:<16} {found['ms']:8.2f} ms/step  first epoch {found['first_s']:.1f} s  loss {found['loss']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
