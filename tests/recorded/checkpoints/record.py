"""Let TensorFlow write the files beside this one: `python record.py`, where TensorFlow 2.21 is installed."""

import gzip
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def main():
    import tensorflow as tf
    from contents import MANY, PLAIN, QUANTIZED, SLICED, STRINGS

    def save(prefix, tensors, slices=None):
        names = sorted(tensors)
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=names,
            shape_and_slices=[(slices or {}).get(name, "") for name in names],
            tensors=[tensors[name] for name in names],
        )

    save(HERE / "plain", {name: tf.constant(value) for name, value in PLAIN.items()})
    save(HERE / "strings", {name: tf.constant(value.tolist(), tf.string) for name, value in STRINGS.items()})
    save(HERE / "quantized", {name: tf.bitcast(value, name) for name, value in QUANTIZED.items()})
    with tempfile.TemporaryDirectory() as folder:
        save(f"{folder}/many", MANY)
        index = Path(f"{folder}/many.index").read_bytes()
        (HERE / "many.index.gz").write_bytes(gzip.compress(index, mtime=0))
        os.replace(f"{folder}/many.data-00000-of-00001", HERE / "many.data-00000-of-00001")

        upper, lower = SLICED["w"][:2], SLICED["w"][2:]
        left, right = SLICED["wide"][:, :70], SLICED["wide"][:, 70:]
        save(f"{folder}/a", {"w": upper, "wide": left, "x": SLICED["x"]}, {"w": "4 3 0,2:-", "wide": "2 100 -:0,70"})
        save(f"{folder}/b", {"w": lower, "wide": right}, {"w": "4 3 2,2:0,3", "wide": "2 100 -:70,30"})
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[f"{folder}/a", f"{folder}/b"], destination_prefix=str(HERE / "sliced")
        )
        save(HERE / "gap", {"w": upper}, {"w": "4 3 0,2:-"})


if __name__ == "__main__":
    main()
