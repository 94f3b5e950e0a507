"""The tape: record what runs in a `with` block, then differentiate it.

`recording_tape.py` implements recording; `Tape` in this module adds the derivatives. The class that users see is in
`inspect/gradient_tape.py`, which adds the views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy import ndarray

from gradtape._src import nest
from gradtape._src.autodiff.arguments import (
    UnconnectedGradients,
    are_differentiable,
    array_of,
    as_policy,
    check_differentiable,
    components,
    finished,
    leaves,
    seed_cotangents,
    seeds_of,
)
from gradtape._src.autodiff.gradient_call import GradientCall
from gradtape._src.autodiff.recording import Recording
from gradtape._src.autodiff.recording_tape import RecordingTape
from gradtape._src.autodiff.settings import settings
from gradtape._src.conversion import wrap
from gradtape._src.core.composites import differentiable_part, with_gradient
from gradtape._src.core.fast.backward import backward_pass, traced_backward_pass
from gradtape._src.core.observe import Observer
from gradtape._src.core.zero_preserving import as_plain, zero_preserving
from gradtape._src.devices import placement
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable, unwrapped
from gradtape._src.variable.growing import check_reads, grown

_NOTHING: frozenset[int] = frozenset()

if TYPE_CHECKING:
    from gradtape._src.autodiff.curvature import Estimate
    from gradtape._src.autodiff.sparsity import Sparsity
    from gradtape._src.typing import Gradient, Source

K = TypeVar("K")


class Tape(RecordingTape):
    """Record what runs inside a `with` block, then differentiate it.

    The tape watches trainable variables when they are read, and tensors when you pass them to `watch`. You can call
    `gradient` or another derivative once, unless the tape is `persistent`. The keyword-only arguments are additions to
    TensorFlow.

    Args:
      persistent: Whether the tape keeps what it saved, so that derivatives can be computed more than once.
      watch_accessed_variables: Whether trainable variables are watched automatically.
      check_numerics: Whether to raise an error at the first NaN or Inf, in the forward or the backward pass.
      strong_zeros: Whether a cotangent that is exactly zero stays zero, so that the branch that `tf.where` did not take
        cannot make a gradient NaN.
      profile: Whether to measure the time of every op, for `profile()`.
      lines: Whether to record the source line of every op.
      graph: Whether ops on watched tensors are collected and run as programs, as with
        `tf.config.set_graph_mode("auto")`.
      memory_limit: How much the tape may save: bytes, "2GB", or "25%" of the memory of the device of new arrays (a
        GPU, or the machine). The backward pass recomputes the rest.
      spill: "disk" writes values to temporary files if that is faster than recomputing them, "host" copies them from a
        GPU to the CPU's memory.
      digests: Whether to keep a digest of every result, for `compare` and `save_digests`.

    >>> import gradtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x)
    <tf.Tensor: shape=(), dtype=float32, numpy=6.0>
    """

    _targets: Sequence[int] = ()  # the uids of the targets of the last gradient call,
    _unconnected: Sequence[int] = ()  # and of the sources without a gradient
    _lost_targets: Sequence[Any] = ()  # the targets themselves, if a source has no gradient

    # -- derivatives ---------------------------------------------------------------------------------------------------
    @overload
    def gradient(
        self,
        target: Any,
        sources: Source,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Gradient: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: tuple[Source, ...],
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> tuple[Gradient, ...]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Sequence[Source],
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> list[Gradient]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Mapping[K, Source],
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> dict[K, Gradient]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any: ...
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Compute the gradient of the sum of all targets, in the structure of `sources`.

        >>> import gradtape as tf
        >>> w = {"a": tf.Variable(2.0), "b": tf.Variable(5.0)}
        >>> with tf.GradientTape() as tape:
        ...     y = w["a"] ** 2 * w["b"]
        >>> {name: float(g) for name, g in tape.gradient(y, w).items()}
        {'a': 20.0, 'b': 4.0}
        """
        recording = self._require_record()
        policy = as_policy(unconnected_gradients)
        if target is None:
            raise TypeError(
                "Argument `target` should be a list or nested structure of Tensors, Variables or CompositeTensors to "
                "be differentiated, but received None."
            )
        if type(target) is Tensor:
            targets: list[Any] = [target]
        else:
            targets = [part for leaf in leaves(target) for part in components(differentiable_part(leaf))]
            check_differentiable("target", targets)
        # The common cases, one source or a list of them (benchmark: mlp32).
        single = type(sources) is Tensor or type(sources) is Variable
        flat = single or (type(sources) is list and are_differentiable(sources))
        given = flat_sources = [sources] if single else sources if flat else leaves(sources)
        if not flat:
            flat_sources = [differentiable_part(source) for source in given]
            check_differentiable("sources", flat_sources)
        seeds = seeds_of(target, targets, output_gradients)
        companions = _NOTHING
        for one in targets:
            if not is_differentiable(array_of(one)):
                recording.refuse_unregistered(targets)
                companions = recording.grouped_outputs()
                break
        with GradientCall(self, "gradient") as traced, float_errors_ignored():
            start = seed_cotangents(targets, seeds, flat_sources, traced, companions)
            cotangents = self._backward(recording, start, flat_sources, traced, last=True)
            found = [cotangents.get(source.uid) for source in flat_sources]
            results = [
                wrap(d) if type(d) is ndarray else finished(d, source, policy)
                for d, source in zip(found, flat_sources, strict=True)
            ]
        self._finish("gradient", targets, flat_sources, found, policy)
        if flat:
            return results[0] if single else results
        return nest.pack_sequence_as(sources, [with_gradient(*pair) for pair in zip(given, results, strict=True)])

    @overload
    def jacobian(
        self,
        target: Any,
        sources: Source,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> Gradient: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: tuple[Source, ...],
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> tuple[Gradient, ...]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Sequence[Source],
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> list[Gradient]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Mapping[K, Source],
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> dict[K, Gradient]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
        *,
        sparse: Any = False,
    ) -> Any: ...
    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
        *,
        sparse: Any = False,
    ) -> Any:
        """Compute all partial derivatives of one target: shape `target.shape + source.shape` for each source.

        `parallel_iterations` is the number of rows that one backward pass computes; by default, as many as fit in
        memory. `mode` is "reverse" (by rows), "forward" (by columns) or "auto" (whichever needs fewer passes).

        With `sparse=True` the result is a `tf.SparseTensor` of the same shape, with `sparse="scipy"` a
        `scipy.sparse.csr_array` of shape [elements of the target, elements of the source]. The tape determines from its
        records where derivatives can be nonzero, and needs only a few passes instead of one per row; `mode` is then
        chosen as by "auto", unless it is "forward". `sparse=plan` reuses a plan returned by `sparsity`.

        >>> import gradtape as tf
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy().tolist()
        [[2.0, 0.0], [0.0, 4.0]]
        """
        if sparse is not False:
            return _sparsities().sparse_jacobian(
                self, target, sources, as_policy(unconnected_gradients), sparse, "auto" if mode == "reverse" else mode
            )
        return _jacobians().jacobian(
            self, target, sources, as_policy(unconnected_gradients), parallel_iterations, experimental_use_pfor, mode
        )

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        *,
        sparse: Any = False,
    ) -> Any:
        """Compute the Jacobian of each row of `target` with respect to the same row of `source`: shape [b, y…, x…].

        With `sparse=True` the result is a `tf.SparseTensor` of the same shape, with `sparse="scipy"` a
        `scipy.sparse.csr_array` with one block on its diagonal for each row. `sparse=plan` reuses a plan returned by
        `sparsity(target, source, batch=True)`.

        >>> import gradtape as tf
        >>> x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.batch_jacobian(y, x).numpy().tolist()
        [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]
        """
        if sparse is not False:
            return _sparsities().sparse_batch_jacobian(self, target, source, sparse)
        return _jacobians().batch_jacobian(
            self, target, source, as_policy(unconnected_gradients), parallel_iterations, experimental_use_pfor
        )

    @overload
    def batch_gradient(
        self,
        target: Any,
        sources: Source,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Gradient: ...
    @overload
    def batch_gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any: ...
    def batch_gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Compute per-example gradients, stacked along a new first axis: row b is `gradient(target[b], source)`.

        >>> import gradtape as tf
        >>> w = tf.Variable([1.0, -1.0])
        >>> with tf.GradientTape() as tape:
        ...     losses = tf.reduce_sum(tf.constant([[1.0, 2.0], [3.0, 4.0]]) * w, axis=1) ** 2
        >>> tape.batch_gradient(losses, w).numpy().tolist()
        [[-2.0, -4.0], [-6.0, -8.0]]
        """
        return _jacobians().batch_gradient(self, target, sources, output_gradients, as_policy(unconnected_gradients))

    @overload
    def jvp(
        self, target: Source, sources: Any, tangents: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Gradient: ...
    @overload
    def jvp(
        self, target: Any, sources: Any, tangents: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any: ...
    def jvp(
        self, target: Any, sources: Any, tangents: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any:
        """Compute the derivative of the targets along `tangents`, with a forward pass over the records.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.jvp(y, x, [1.0, 10.0]).numpy().tolist()
        [2.0, 40.0]
        """
        sources = unwrapped(sources)
        if isinstance(sources, (Tensor, Variable)) and isinstance(tangents, (list, tuple)):
            tangents = np.asarray(tangents, sources.dtype.as_numpy_dtype)
        return _directional().jvp(self, target, sources, tangents, as_policy(unconnected_gradients))

    @overload
    def hessian(
        self, target: Any, sources: Source, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Gradient: ...
    @overload
    def hessian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        *,
        sparse: Any = False,
    ) -> Any: ...
    def hessian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        *,
        sparse: Any = False,
    ) -> Any:
        """Compute the second derivatives of the sum of a target; for several sources, a block for each pair of them.

        You do not need an outer tape: this records the backward pass and differentiates it again. `sparse` works as for
        `jacobian`; `tape.sparsity(target, sources, order=2)` returns a plan for it.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x[0] ** 2 * x[1]
        >>> tape.hessian(y, x).numpy().tolist()
        [[4.0, 2.0], [2.0, 0.0]]
        """
        if sparse is not False:
            return _sparsities().sparse_hessian(self, target, sources, as_policy(unconnected_gradients), sparse)
        return _directional().hessian(self, target, sources, as_policy(unconnected_gradients))

    def sparsity(
        self,
        target: Any,
        sources: Any,
        *,
        order: int = 1,
        mode: str = "auto",
        local: bool = False,
        format: str = "tensor",
        batch: bool = False,
    ) -> Sparsity:
        """Find where the Jacobian (or, with `order=2`, the Hessian) can be nonzero: a plan for computing it.

        You can use the plan many times, also with another tape that recorded the same program at another point. This
        computes no derivative and does not use up the tape.

        Args:
          target: The tensor to differentiate; for `order=2` a scalar.
          sources: Tensors or variables; several of them form one matrix, side by side.
          order: 1 for `jacobian`, 2 for `hessian`.
          mode: "forward" (by columns), "reverse" (by rows), "both" (some rows by rows, the rest by columns) or "auto",
            whichever needs the fewest passes. Hessians use the mode "symmetric" or, on request, "acyclic", which needs
            fewer passes, but computes entries as differences of sums, which costs digits if they differ in size.
          local: Whether the pattern holds at this point only: a factor that is zero here, or the branch of `where` that
            was not taken, then counts as no dependence.
          format: The type of the results: "tensor" (`tf.SparseTensor`) or "scipy" (`scipy.sparse.csr_array`).
          batch: Whether the plan is for `batch_jacobian`.

        >>> import gradtape as tf
        >>> x = tf.Variable(tf.range(5.0))
        >>> with tf.GradientTape(persistent=True) as tape:
        ...     y = x[2:] - 2.0 * x[1:-1] ** 2 + x[:-2]
        >>> plan = tape.sparsity(y, x)
        >>> plan
        <sparsity of a 3 x 5 Jacobian: 9 entries, 3 reverse passes>
        >>> plan.to_dense().astype(int).tolist()
        [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
        >>> tape.jacobian(y, x, sparse=plan).values.numpy().tolist()
        [1.0, -4.0, 1.0, 1.0, -8.0, 1.0, 1.0, -12.0, 1.0]
        """
        return _sparsities().sparsity(
            self, target, sources, order=order, mode=mode, local=local, format=format, batch=batch
        )

    @overload
    def hvp(
        self, target: Any, sources: Source, vectors: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Gradient: ...
    @overload
    def hvp(
        self, target: Any, sources: Any, vectors: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any: ...
    def hvp(
        self, target: Any, sources: Any, vectors: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any:
        """Compute Hessian-vector products without building the Hessian (forward over reverse).

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = tf.reduce_sum(x**3)
        >>> tape.hvp(y, x, tf.constant([1.0, 0.0])).numpy().tolist()
        [6.0, 0.0]
        """
        return _directional().hvp(self, target, sources, vectors, as_policy(unconnected_gradients))

    def ggn_vp(
        self,
        target: Any,
        outputs: Any,
        sources: Any,
        vectors: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Compute products with the generalized Gauss-Newton matrix Jᵀ H J without building the matrix.

        J is the Jacobian of the `outputs` (a model's predictions) with respect to the sources, and H the Hessian of the
        target (the loss) with respect to the outputs. The matrix is the Hessian without the second derivatives of the
        model, and is positive semidefinite if the loss is convex in the outputs. For negative log-likelihoods of an
        exponential family (cross entropy with logits, mean squared error) it is the Fisher information matrix.

        >>> import gradtape as tf
        >>> w, x = tf.Variable([1.0, 2.0]), tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> with tf.GradientTape() as tape:
        ...     outputs = tf.tanh(tf.linalg.matvec(x, w) / 10.0)
        ...     loss = tf.reduce_sum(outputs**2)
        >>> print(tape.ggn_vp(loss, outputs, w, tf.constant([1.0, 0.0])).numpy().round(3))
        [0.043 0.065]
        """
        return _curvatures().ggn_vp(self, target, outputs, sources, vectors, as_policy(unconnected_gradients))

    def hessian_diagonal(self, target: Any, sources: Any, *, samples: int = 100, seed: int = 0) -> Estimate:
        """Estimate the diagonal of the Hessian from products with vectors of random signs, with its standard error.

        The estimate is the mean of z · Hz over vectors z of random signs; it is exact if the Hessian is diagonal.

        Args:
          target: The scalar to be differentiated.
          sources: Tensors or variables; the results have their structure.
          samples: The number of products.
          seed: The same seed gives the same estimate.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = tf.reduce_sum(x**3)
        >>> estimate = tape.hessian_diagonal(y, x, samples=2)
        >>> estimate.value.numpy().tolist(), estimate.error.numpy().tolist()
        ([6.0, 12.0], [0.0, 0.0])
        """
        return _curvatures().hessian_diagonal(self, target, sources, samples, seed)

    def hessian_trace(
        self, target: Any, sources: Any, *, samples: int = 100, method: str = "hutchinson", seed: int = 0
    ) -> Estimate:
        """Estimate the trace of the Hessian, of a network's parameters for example, with its standard error.

        Args:
          target: The scalar to be differentiated.
          sources: Tensors or variables; several are one Hessian.
          samples: The number of products with the Hessian.
          method: "hutchinson" (the mean of zᵀHz over vectors z of random signs) or "hutch++", which computes the part
            of the largest directions exactly, and is better where eigenvalues decay.
          seed: The same seed gives the same estimate.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = tf.reduce_sum(x**3)
        >>> tape.hessian_trace(y, x, samples=4)
        Estimate(value=18.0, error=0.0)
        """
        return _curvatures().hessian_trace(self, target, sources, samples, method, seed)

    def taylor(
        self,
        target: Any,
        sources: Any,
        order: int,
        directions: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Compute the target and its derivatives of order 1, 2, … along a direction in one forward pass (Taylor mode).

        These are the derivatives of `t -> target(sources + t * directions)` at t = 0. The cost grows with the square of
        the order; the cost of nested tapes doubles with each order.

        Args:
          target: A tensor, or a structure of them.
          sources: A tensor or variable, or a structure of them.
          order: The number of derivatives.
          directions: Tensors with the structure and shapes of the sources; ones by default. If each element of the
            target depends on one element of the source, as in elementwise functions and networks with one input, the
            results are then its derivatives.
          unconnected_gradients: "none" or "zero": what to return for a target that does not depend on the sources.

        Returns:
          A list of `order + 1` tensors, beginning with the target; for a structure of targets, one list for each.

        >>> import gradtape as tf
        >>> x = tf.constant([0.0, 1.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x**4
        >>> [d.numpy().tolist() for d in tape.taylor(y, x, order=4)]
        [[0.0, 1.0], [0.0, 4.0], [0.0, 12.0], [0.0, 24.0], [24.0, 24.0]]
        """
        return _taylor_mode().taylor(self, target, sources, order, directions, as_policy(unconnected_gradients))

    def laplacian(
        self,
        target: Any,
        source: Any,
        batch: bool = False,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Compute the sum of the second derivatives of a target along each axis of a source, without the Hessian.

        One forward pass carries the value, all first derivatives and the sum of the second derivatives (forward
        Laplacian).

        Args:
          target: A tensor.
          source: A tensor or variable.
          batch: Whether the first axis of target and source indexes points that do not depend on each other, as in
            `batch_jacobian`; the result is then the Laplacian at each point.
          unconnected_gradients: "none" or "zero".

        >>> import gradtape as tf
        >>> x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = tf.reduce_sum(x**3, axis=1)
        >>> tape.laplacian(y, x, batch=True).numpy().tolist()
        [18.0, 42.0]
        """
        return _taylor_mode().laplacian(self, target, source, batch, as_policy(unconnected_gradients))

    def biharmonic(
        self,
        target: Any,
        source: Any,
        batch: bool = False,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Compute the Laplacian of the Laplacian: the sum over all i and j of ∂⁴target/∂xᵢ²∂xⱼ².

        This takes one forward pass in Taylor mode along n² directions, for a source of n elements. The arguments are
        the same as for `laplacian`.

        >>> import gradtape as tf
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x[0] ** 2 * x[1] ** 2
        >>> tape.biharmonic(y, x).numpy().round(4)
        np.float32(8.0)
        """
        return _taylor_mode().biharmonic(self, target, source, batch, as_policy(unconnected_gradients))

    # -- gradient calls -------------------------------------------------------------------------------------

    def _recorded_gradient(self, target: Any, sources: list[Any]) -> list[Any]:
        """The gradient, recorded on the tape itself; for internal use: it neither warns nor uses up the tape."""
        assert self._recording is not None
        start = seed_cotangents([target], [None], sources, traced=True)
        with float_errors_ignored():
            cotangents = self._backward(self._recording, start, sources, True, last=False)
        return [finished(cotangents.get(s.uid), s, UnconnectedGradients.NONE) for s in sources]

    def _finish(
        self, method: str, targets: list[Any], sources: list[Any], found: list[Any], policy: UnconnectedGradients
    ) -> None:
        """Remember which sources got no gradient."""
        self._targets = [target.uid for target in targets]
        lost = [i for i, d in enumerate(found) if d is None]
        self._unconnected = [sources[i].uid for i in lost] if lost else ()
        if lost and policy is UnconnectedGradients.NONE:
            self._on_unconnected(method, targets, sources, [sources[i] for i in lost])

    def _gradient_call(self, method: str) -> GradientCall:
        """The context of one gradient call, which decides whether its passes are recorded, and whether it uses up the
        tape.
        """
        return GradientCall(self, method)

    def _backward(
        self,
        recording: Recording,
        cotangents: dict[int, Any],
        sources: Sequence[Any],
        traced: bool,
        *,
        last: bool,
    ) -> dict[int, Any]:
        """Run one backward pass. The last one of a tape that is not persistent frees the records while it runs."""
        uids = frozenset([source.uid for source in sources])
        if grown and not grown.isdisjoint(uids):
            check_reads(recording.records, recording.tracked, cotangents, uids)
        shapes = recording.shapes_between(uids)
        strong = "strong_zeros" in self.options
        if strong:
            cotangents.update({uid: zero_preserving(g) for uid, g in cotangents.items()})
        observed = self._observes_backward or self._profiler is not None or settings.checks_numerics
        observer = self._backward_observer(recording, shapes, cotangents) if observed else None
        may_raise = recording.may_raise or (observer is not None and observer.may_raise)
        release = last and not self._persistent and not traced and not may_raise
        if release and not cotangents.keys() <= recording.tracked.keys():
            recording.drop_ends(cotangents)
        recording.consumed = release
        recording.sources, recording.size = uids, len(recording.records)
        records = recording.records
        if settings.gradient_overrides and traced:
            records = _gradient_overrides().with_overrides(records)
        unreached = recording.unreached if release else None
        kept = uids - recording.roots  # a root is never an output, so its cotangent is not removed
        if (placement.places or recording.lazy) and not (traced or strong or observer or self._budget):
            known_passes = _known_passes()
            task = known_passes.Task(records, shapes, cotangents, [source.uid for source in sources], kept)
            known = known_passes.known_backward_pass(task, release=release, unreached=unreached)
            if known is not None:
                return known
        plan = None if self._budget is None else self._plan()
        found = (traced_backward_pass if traced else backward_pass)(
            records,
            shapes,
            cotangents,
            kept=kept,
            traced=traced,
            release=release,
            unreached=unreached,
            observer=observer,
        )
        if plan is not None:
            plan(found.values())
        return {uid: as_plain(c) for uid, c in found.items()} if strong else found

    # -- hooks of subclasses -----------------------------------------------------------------------------------------
    def _backward_observer(
        self, recording: Recording, shapes: dict[int, tuple[int, ...]], cotangents: dict[int, Any]
    ) -> Observer | None:
        """The observer of a backward pass that is about to run."""
        return None

    def _plan(self) -> Callable[[Iterable[Any]], None] | None:
        """With a memory limit: a function that plans a backward pass from its results, before they are computed."""
        return None

    def _on_unconnected(self, method: str, targets: list[Any], sources: list[Any], lost: list[Any]) -> None:
        """Called when some sources have no gradient."""


# Modules that the first call imports (benchmark: import).
def _jacobians() -> Any:
    from gradtape._src.autodiff import jacobian

    return jacobian


def _directional() -> Any:
    from gradtape._src.autodiff import directional

    return directional


def _sparsities() -> Any:
    from gradtape._src.autodiff import sparse_plans

    return sparse_plans


def _gradient_overrides() -> Any:
    from gradtape._src.autodiff import gradient_overrides

    return gradient_overrides


def _known_passes() -> Any:
    from gradtape._src.core.fast import known_passes

    return known_passes


def _curvatures() -> Any:
    from gradtape._src.autodiff import curvature

    return curvature


def _taylor_mode() -> Any:
    from gradtape._src.autodiff import taylor

    return taylor
