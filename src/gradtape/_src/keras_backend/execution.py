"""How `fit`, `evaluate` and `predict` run steps: eagerly, or as compiled programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras.src import tree
from numpy import ndarray

from gradtape._src.call_sites import logger
from gradtape._src.conversion import wrap
from gradtape._src.function.function import Function
from gradtape._src.function.modes import functions_run_eagerly
from gradtape._src.interrupts import is_interrupt
from gradtape._src.keras_backend.core import convert_to_numpy, convert_to_tensor, dense
from gradtape._src.keras_backend.distribution_lib import distribute_batch
from gradtape._src.keras_backend.sparse_data import as_sparse_tensor, is_for_host, is_sparse_data
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array as arrays
from gradtape._src.tf.sparse_shaping import concat as concat_sparse

Step = Callable[[Any], Any]


class EagerSteps:
    """A function of the batches of one execution, which runs the step on one after the other.

    The result is that of the last step or, with `all_results`, the results of all steps along their first axis.
    """

    def __init__(self, step: Step, all_results: bool = False) -> None:
        self._step, self._all_results = step, all_results

    def __call__(self, batches: Sequence[Any]) -> Any:
        return self._joined([self._step(tree.map_structure(as_tensor, batch)) for batch in batches])

    def _joined(self, results: list[Any]) -> Any:
        return concatenated(results) if self._all_results and len(results) > 1 else results[-1]


_MOST_IN_A_ROW = 8
"""The number of replicated steps in one program, whose compile time grows with it."""


class CompiledSteps(EagerSteps):
    """Like `EagerSteps`, with programs: one for each signature of a batch, and one with a loop for several equal ones.

    If a step reads values while it is traced, it runs eagerly from then on, and the reason is logged once. Sparse and
    ragged batches, each of which has a different number of values and would need its own program, run eagerly as well,
    and so do batches of strings.
    """

    def __init__(self, step: Step, all_results: bool = False) -> None:
        super().__init__(step, all_results)
        self._one = Function(step, autograph=False, always_traced=True)  # this class runs it eagerly
        self._is_replicated = getattr(step, "is_replicated", False)
        several = self._in_a_row if self._is_replicated else self._loop
        self._several = Function(several, autograph=False, always_traced=True)
        self._cannot = False

    def __call__(self, batches: Sequence[Any]) -> Any:
        if len(batches) > 1 and not is_for_host(batches) and _are_alike(batches):
            most = _MOST_IN_A_ROW if self._is_replicated else len(batches)
            groups = [batches[i : i + most] for i in range(0, len(batches), most)]
            return self._joined([self._run(self._several if len(g) > 1 else self._one, g) for g in groups])
        return self._joined([self._run(self._one, [batch]) for batch in batches])

    def _run(self, function: Function, batches: Sequence[Any]) -> Any:
        if self._cannot or functions_run_eagerly() or is_for_host(batches) or self._is_uneven(batches):
            return super().__call__(batches)
        given = tree.map_structure(_as_argument, tuple(batches))
        try:
            program, tensors, variables = function.prepared(*given)
        except Exception as error:
            if is_interrupt(error):
                raise
            reason = _plain_text(error)
        else:
            return program.run(tensors, variables)
        results = super().__call__(batches)  # raises the error of the step in any case
        self._cannot = True
        logger().warning(
            "%s runs eagerly, because it could not be compiled (`compile(run_eagerly=True)` does the same): %s",
            getattr(self._step, "__qualname__", self._step),
            reason,
        )
        return results

    def _is_uneven(self, batches: Sequence[Any]) -> bool:
        found = getattr(self._step, "is_uneven", None)
        return found is not None and bool(found(batches))

    def _in_a_row(self, *batches: Any) -> Any:
        """Run a step for each batch without a loop: devices exchange values between steps, which a loop cannot do."""
        results = [self._step(batch) for batch in batches]
        if not self._all_results:
            return results[-1]
        return tree.map_structure(lambda *leaves: arrays.concat([dense(leaf) for leaf in leaves], 0), *results)

    def _loop(self, *batches: Any) -> Any:
        """Run a step for each batch, in a loop of the program."""
        from gradtape._src.graph.control_flow import scan

        structure = None
        columns = [column for column in zip(*map(tree.flatten, batches), strict=True) if column[0] is not None]
        places = [leaf is not None for leaf in tree.flatten(batches[0])]

        def iterate(_: Any, row: list[Tensor]) -> tuple[list[Any], list[Any]]:
            nonlocal structure
            tensors = iter(row)
            flat = [next(tensors) if there else None for there in places]
            structure = self._step(tree.pack_sequence_as(batches[0], flat))
            return [], [dense(leaf) for leaf in tree.flatten(structure) if leaf is not None]

        _, stacked = scan(iterate, [], [arrays.stack(column) for column in columns], len(batches))
        results = iter(stacked)
        return tree.map_structure(lambda leaf: None if leaf is None else self._of_all(next(results)), structure)

    def _of_all(self, stacked: Tensor) -> Tensor:
        if not self._all_results:
            return stacked[-1]
        return arrays.reshape(stacked, (-1, *stacked.array.shape[2:]))


def as_tensor(leaf: Any) -> Any:
    """Convert a part of a batch to a tensor."""
    if leaf is None or isinstance(leaf, (Tensor, RaggedTensor)):
        return leaf
    return as_sparse_tensor(leaf) if is_sparse_data(leaf) else distribute_batch(convert_to_tensor(leaf))


def _as_argument(leaf: Any) -> Any:
    """Convert a part of a batch without a copy: the program has used it before the next batch is made."""
    plain = type(leaf) is ndarray and leaf.dtype.kind in "fiub" and leaf.flags.c_contiguous
    return distribute_batch(wrap(leaf)) if plain else as_tensor(leaf)


def _plain_text(error: Exception) -> str:
    """The message of an error in one line, without the bold type that Keras adds."""
    return " ".join(re.sub("\x1b\\[[0-9]*m", "", str(error) or type(error).__name__).split())


def _are_alike(batches: Sequence[Any]) -> bool:
    first, *rest = [[(np.shape(x), getattr(x, "dtype", None)) for x in tree.flatten(b)] for b in batches]
    return all(kinds == first for kinds in rest)


def concatenated(parts: Sequence[Any]) -> Any:
    """Concatenate the results for several batches, in their structure."""
    return tree.map_structure(_concatenated, *parts)


def _concatenated(*leaves: Any) -> Any:
    """One result for several batches; it is ragged if it is for a batch, or if sizes differ between batches."""
    if isinstance(leaves[0], SparseTensor):
        return concat_sparse(0, list(leaves))
    if not isinstance(leaves[0], RaggedTensor):
        found = [convert_to_numpy(leaf) for leaf in leaves]
        shapes = {x.shape[1:] for x in found}
        if len(shapes) == 1 or len({len(shape) for shape in shapes}) > 1:  # other ranks: NumPy's error
            return np.concatenate(found)
        rank = max(i for i, sizes in enumerate(zip(*shapes, strict=True), 1) if len(set(sizes)) > 1)
        leaves = tuple(RaggedTensor.from_tensor(x, ragged_rank=rank) for x in found)
    return arrays.concat(list(leaves), 0) if len(leaves) > 1 else leaves[0]


def as_result(leaf: Any) -> Any:
    """A result that is shown to the user: ragged and sparse tensors as they are, others as arrays."""
    return leaf if isinstance(leaf, (RaggedTensor, SparseTensor)) else convert_to_numpy(leaf)
