"""Write docs/supported.md: every public TensorFlow name of the differentiable world, and whether gradtape has it.

The names (docs/data/tensorflow_names.txt) are those of TensorFlow 2.21. Run it after adding functions:

    python docs/make_supported.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gradtape

HERE = Path(__file__).parent

# Why a name is missing: the first pattern that fits. A name that is missing without a reason here is an omission.
REASONS = [
    (r"tf\.(keras|losses|metrics|optimizers|initializers)$", "Keras: planned, as the real Keras 3"),
    (r"tf\.(function|autograph|graph_util|inside_function|is_symbolic_tensor|xla|mlir|nondifferentiable_batch_function)$",
     "compiled functions: planned"),
    (r"tf\.(config|distribute|tpu|dtensor|DeviceSpec|profiler|check_pinned)$", "devices: planned with the XLA engine"),
    (r"tf\.(data|io|train|summary|saved_model|TensorArraySpec|OptionalSpec|TypeSpec|type_spec_from_value)$",
     "data, checkpoints and summaries: planned"),
    (r"tf\.debugging\.(en|dis)able_check_numerics|tf\.debugging\.experimental$", "numerics views of the tape: planned"),
    (r"RNNCell", "Keras layers wrap cells there: planned with Keras"),
    (r"LinearOperator", "structured operators: use the matrices themselves"),
    (r"(?i)sparse|ragged|sets$|NoneTensorSpec|IndexedSlicesSpec", "sparse and ragged tensors are outside gradtape"),
    (r"(?i)quantiz|qu?int|fake_quant", "quantisation is outside gradtape"),
    (r"tf\.(strings|as_string|edit_distance|lookup|fingerprint|feature_column|ragged|audio|queue|CriticalSection)$",
     "strings, tables and input pipelines are outside gradtape"),
    (r"tf\.(Graph|Operation|import_graph_def|raw_ops|load_library|load_op_library|make_ndarray|make_tensor_proto|"
     r"sysconfig|tools|types|lite|security|resource|variant|experimental|estimator|variable_creator_scope)$",
     "TensorFlow's own machinery"),
    (r"(conv|conv2d_backprop_filter_v2|conv2d_backprop_input_v2|approx_top_k|ragged_fill_empty_rows(_grad)?)$",
     "an internal op that TensorFlow exports by accident"),
    (r"jpeg|jxl|webp|bmp|gif|decode_|encode_", "image files other than through Pillow's PNG and JPEG"),
    (r"bounding_box|proposals|non_max_suppression|glimpse", "detection tooling without a derivative"),
    (r"candidate_sampler|ctc_(beam|greedy)|fractional_|isotonic|with_space_to_batch|sobol", "rare, and without users so far"),
    (r"tf\.debugging\.(get|set)_log_device_placement|traceback_filtering", "switches of TensorFlow's runtime"),
]  # fmt: skip

PAGE = """# What gradtape has of TensorFlow

Every public name of TensorFlow 2.21 in the namespaces where tapes live: {have} of {total} are here.
This page is made by `docs/make_supported.py`; a test keeps it true. What is missing says why.
"""


def lookup(name: str) -> Any:
    """The object behind a dotted name, or None."""
    found: Any = gradtape
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            return None
        found = getattr(found, part)
    return found if name != "tf.newaxis" else ...


def reason(name: str) -> str | None:
    """Why a name is missing."""
    return next((why for pattern, why in REASONS if re.search(pattern, name)), None)


def build() -> str:
    """The page."""
    names = [line.split()[0] for line in (HERE / "data" / "tensorflow_names.txt").read_text().splitlines()]
    spaces: dict[str, list[str]] = {}
    for name in names:
        spaces.setdefault(name.rpartition(".")[0], []).append(name)
    have = [name for name in names if lookup(name) is not None]
    parts = [PAGE.format(have=len(have), total=len(names))]
    for space, members in spaces.items():
        here = [n.rpartition(".")[2] for n in members if lookup(n) is not None]
        parts.append(f"\n## `{space}`\n\n{len(here)} of {len(members)}: " + ", ".join(f"`{n}`" for n in here) + "\n")
        missing: dict[str, list[str]] = {}
        for name in members:
            if lookup(name) is None:
                missing.setdefault(reason(name) or "not yet", []).append(name.rpartition(".")[2])
        if missing:
            parts.append("\n| not here | why |\n|---|---|\n")
            parts += [f"| {', '.join(f'`{n}`' for n in ns)} | {why} |\n" for why, ns in sorted(missing.items())]
    return "".join(parts)


if __name__ == "__main__":
    (HERE / "supported.md").write_text(build())
