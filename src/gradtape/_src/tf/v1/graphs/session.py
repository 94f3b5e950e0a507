"""Sessions: the values of a graph's variables, and the programs that compute fetches.

For each combination of fetches and feeds, the operations that they need become a `tf.function`, which calls their
functions in the order in which they were added. It is traced, compiled and run like any other; variables are those of
the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.symbolic import Repeated, building, current_graph, tracing
from gradtape._src.conversion import array_from, convert, wrap
from gradtape._src.core.tape import use_recorders
from gradtape._src.function.function import Function
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.interrupts import setting
from gradtape._src.ops import array
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.tf.v1.graphs.default import get_default_graph
from gradtape._src.tf.v1.graphs.evaluation import Evaluation, needed
from gradtape._src.tf.v1.graphs.graph import Graph, as_default_session
from gradtape._src.tf.v1.graphs.tensors import GraphTensor, Operation, is_graph_value, running
from gradtape._src.tf.v1.graphs.values import as_value
from gradtape._src.variable import Creations, Variable, creating, variable_maker

__all__ = ["InteractiveSession", "Session"]


class Session:
    """Runs the operations of a graph, and has the values of its variables.

    Args:
      target: No effect: the session runs in this process.
      graph: The graph; the default one if there is none.
      config: No effect; `tf.config` has the options that matter here.

    >>> import gradtape as tf
    >>> v1 = tf.compat.v1
    >>> with tf.Graph().as_default(), v1.Session() as session:
    ...     w = v1.get_variable("w", initializer=3.0)
    ...     session.run(v1.global_variables_initializer())
    ...     print(*session.run([w, w.assign_add(1.0)]))
    3.0 4.0
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"Argument `graph` must be a tf.Graph, but got {type(graph).__name__}.")
        self.graph: Any = get_default_graph() if graph is None else graph
        self.sess_str, self._config = target, config
        self._closed = False
        self._blocks: list[Any] = []
        self._variables: dict[int, tuple[Any, Variable]] = {}
        self._ready: set[int] = set()
        self._steps: dict[Any, _Step] = {}
        self._random: dict[int, Repeated] = {}

    @property
    def graph_def(self) -> Any:
        """The graph as the message `GraphDef`."""
        return self.graph.as_graph_def()

    # -- blocks ------------------------------------------------------------------------------------------------------
    def as_default(self) -> Any:
        """A block in which `eval` and `run` use this session."""
        return as_default_session(self)

    def __enter__(self) -> Session:
        self._enter([self.graph.as_default(), as_default_session(self)])
        return self

    def _enter(self, blocks: list[Any]) -> None:
        for block in blocks:
            block.__enter__()
        self._blocks.append(blocks)

    def __exit__(self, *failure: Any) -> None:
        for block in reversed(self._blocks.pop()):
            block.__exit__(*failure)
        if type(self) is Session:
            self.close()

    def close(self) -> None:
        """Let go of the variables. Nothing can run afterwards."""
        self._closed = True
        for held in (self._variables, self._ready, self._steps, self._random):
            held.clear()

    # -- variables ---------------------------------------------------------------------------------------------------
    def has_value(self, variable: Any) -> bool:
        """Whether a variable has a value in this session."""
        return id(variable) in self._ready

    def variable(self, variable: Any, like: Tensor | None = None) -> Variable:
        """The session's variable for a variable of the graph; `like` is the value that is about to be assigned."""
        if id(variable) not in self._variables:
            known = variable.shape.is_fully_defined()
            shape = variable.shape.as_list() if known or like is None else like.array.shape
            start = np.zeros([n if isinstance(n, int) else 0 for n in shape], variable.dtype.numpy_dtype)
            with outside(), creating(Creations(None)):
                made = Variable(
                    start, variable.trainable, name=variable.op.name, shape=None if known else variable.shape
                )
            self._variables[id(variable)] = variable, made
        return self._variables[id(variable)][1]

    def mark_ready(self, variables: Any) -> None:
        """Mark variables as having values."""
        self._ready.update(variables)

    def random_state(self, op: Operation) -> Repeated:
        """The stream positions of an operation's random ops."""
        return self._random.setdefault(op.number, Repeated())

    # -- running -----------------------------------------------------------------------------------------------------
    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """The values of tensors and variables; None for operations, which are run.

        Args:
          fetches: A tensor, a variable, an operation, a name of one, or a structure of them.
          feed_dict: Values for tensors, by the tensors or their names: placeholders, or any others in their place.
          options: No effect.
          run_metadata: No effect.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not self.graph.operations:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        leaves = [self._fetch(leaf) for leaf in nest.flatten(_lists(fetches))]
        feeds = self._feeds(feed_dict or {})
        key = (tuple(map(_key, leaves)), tuple(map(id, feeds)))
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = _Step(self, leaves, list(feeds))
        values = step.run(list(feeds.values()))
        return nest.pack_sequence_as(_lists(fetches), values)

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable[..., Any]:
        """A function of the fed values that runs these fetches."""
        return lambda *values: self.run(fetches, dict(zip(feed_list or (), values, strict=True)))

    def list_devices(self) -> list[Any]:
        """The devices."""
        from gradtape._src.tf.v1.device_lib import list_local_devices

        return list_local_devices()

    def _fetch(self, leaf: Any) -> Any:
        """The object to fetch: a tensor, a variable, an operation, or a composite tensor."""
        if leaf is None or (isinstance(leaf, Tensor) and not is_graph_value(leaf)):
            raise TypeError(
                f"Argument `fetch` = {leaf!r} has invalid type {type(leaf).__name__!r} must be a string or Tensor. "
                f"(Can not convert a {type(leaf).__name__} into a Tensor or Operation.)"
            )
        if _parts(leaf) is not None:
            return leaf
        try:
            found = self.graph.as_graph_element(leaf)
        except TypeError as error:
            kind = type(leaf).__name__
            raise TypeError(f"Argument `fetch` = {leaf!r} has invalid type {kind!r}: {error}") from None
        except (KeyError, ValueError) as error:
            reason = error.args[0]
            raise ValueError(f"Argument `fetch` = {leaf!r} cannot be interpreted as a Tensor. ({reason})") from None
        return found if isinstance(found, (GraphTensor, Operation)) else found.graph_element

    def _feeds(self, feed_dict: Any) -> dict[Any, Any]:
        """Tensors, and the arrays that are fed for them."""
        feeds: dict[Any, Any] = {}
        for key, value in feed_dict.items():
            parts = None if isinstance(key, str) else _parts(key)
            for tensor, part in [(key, value)] if parts is None else zip(parts, _parts_of_value(value), strict=True):
                found = self._feed_target(tensor)
                feeds[found] = _fed(found, part)
        return feeds

    def _feed_target(self, key: Any) -> GraphTensor:
        try:
            found = self.graph.as_graph_element(key, allow_operation=False)
        except (KeyError, TypeError, ValueError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error.args[0]}") from None
        if isinstance(found, Operation):
            raise TypeError("Cannot interpret feed_dict key as Tensor: it is an Operation.")
        return found if isinstance(found, GraphTensor) else found.graph_element


class InteractiveSession(Session):
    """A session that is the default one from now on until it is closed, and so is the graph if one is given.

    Without a graph, eager code stays eager: programs create one only to set `config.gpu_options`.
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._enter(
            [as_default_session(self)] if graph is None else [self.graph.as_default(), as_default_session(self)]
        )

    def close(self) -> None:
        """End the session; the one before it is the default again."""
        if self._blocks:
            self.__exit__(None, None, None)
        super().close()


class outside:
    """Context of eager code: no graph is built, traced or run."""

    def __enter__(self) -> None:
        self._blocks = (building(None), setting(variable_maker, None), running(None), tracing(None), use_recorders(()))
        for block in self._blocks:
            block.__enter__()

    def __exit__(self, *failure: Any) -> None:
        for block in reversed(self._blocks):
            block.__exit__(*failure)


class _OpenTape(GradientTape):
    """The tape of a run, whose gradients are operations of the run and can be differentiated themselves."""

    _warns_while_active = False


class _Tape:
    """Records eager ops, if gradients of them are computed."""

    def __init__(self) -> None:
        self._tape = _OpenTape(persistent=True)

    def watch_constant(self, value: Tensor) -> None:
        """Watch a value that was computed from constants."""
        if is_differentiable(value.array):
            self._tape.watch(value)

    def __enter__(self) -> Any:
        return self._tape.__enter__()

    def __exit__(self, *failure: Any) -> None:
        self._tape.__exit__(*failure)

    def gradient(self, *args: Any, **kwargs: Any) -> Any:
        """The gradients of what was recorded."""
        return self._tape.gradient(*args, **kwargs)


class _Run(Evaluation):
    """The values of tensors and variables in a run of a session."""

    def __init__(self, session: Session, given: Any) -> None:
        super().__init__(given)
        self._session = session
        self.assigned: set[int] = set()

    def variable(self, variable: Any) -> Variable:
        if not (self._session.has_value(variable) or id(variable) in self.assigned):
            raise errors.FailedPreconditionError(
                None,
                variable.op,
                f"Could not find variable {variable.op.name}. This could mean that the variable has been deleted. In "
                "TF1, it can also mean the variable is uninitialized: run tf.compat.v1.global_variables_initializer() "
                "in this session first.",
            )
        return self._session.variable(variable)

    def read(self, variable: Any) -> Tensor:
        return convert(self.variable(variable))

    def change(self, variable: Any, method: str, args: tuple[Any, ...]) -> Tensor:
        if method == "assign":
            value = convert(args[0], variable.dtype)
            own, args = self._session.variable(variable, value), (value,)
        elif self._session.has_value(variable) or id(variable) in self.assigned:
            own = self._session.variable(variable)
        else:
            raise errors.NotFoundError(
                None, variable.op, f"Resource {variable.op.name} does not exist: the variable is uninitialized."
            )
        getattr(own, method)(*args)
        self.assigned.add(id(variable))
        result: Tensor = array.identity(convert(own))
        return result

    def prepare(self, op: Operation) -> None:
        graph = current_graph()
        if graph is not None:
            graph.seed, graph.op_seeds = op.graph.seed, op.number
            graph.repeated = self._session.random_state(op)
            graph.repeated.next = 0


class _Step:
    """The program for a combination of fetches and feeds."""

    def __init__(self, session: Session, fetches: list[Any], feeds: list[GraphTensor]) -> None:
        self._session, self._fetches, self._feeds = session, fetches, feeds
        fed = set(map(id, feeds))
        self._ops = needed([op for fetch in fetches for op in _operations(fetch, fed)], fed)
        self._sources = [op for op in self._ops if op.source is not None]
        self._assigned: set[int] = set()

        def session_run(*values: Tensor) -> list[Tensor]:
            return self._evaluate(*values)

        session_run.is_quiet = True  # type: ignore[attr-defined]  # nothing in the program says how it has to run
        self._function = Function(session_run, autograph=False, reduce_retracing=True)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The values of the fetches for these values of the feeds."""
        with outside():
            arrays = [*arrays, *[value for op in self._sources for value in op.source(self._session)]]  # type: ignore[misc]
            results = self._function(*[wrap(each) for each in arrays])
        self._session.mark_ready(self._assigned)
        remaining = iter(results)
        return [as_value(fetch, remaining) for fetch in self._fetches]

    def _evaluate(self, *values: Tensor) -> list[Tensor]:
        sourced = [output for op in self._sources for output in op.outputs]
        run = _Run(self._session, zip([*self._feeds, *sourced], values, strict=True))
        ops = [op for op in self._ops if op.source is None]
        if current_graph() is None and any(op.attributes.get("gradients") for op in ops):
            run.tape = _Tape()
            with run.tape:
                return self._results(run, ops)
        return self._results(run, ops)

    def _results(self, run: _Run, ops: Sequence[Operation]) -> list[Tensor]:
        for op in ops:
            run.run(op)
        with running(run):
            found = [array.identity(convert(run.inside(part))) for fetch in self._fetches for part in _tensors(fetch)]
        self._assigned |= run.assigned
        return found


def _key(fetch: Any) -> Any:
    parts = _parts(fetch)
    return id(fetch) if parts is None else tuple(map(id, parts))


def _lists(fetches: Any) -> Any:
    """Convert fetches to nests of plain structures."""
    if isinstance(fetches, Operation) or is_graph_value(fetches):
        return fetches
    return list(fetches) if isinstance(fetches, (set, range)) else fetches


def _parts(value: Any) -> list[Any] | None:
    """The tensors of a composite tensor; None for anything else."""
    if is_graph_value(value) or isinstance(value, (Operation, str)):
        return None
    if isinstance(value, IndexedSlices):
        return [value.values, value.indices, *([] if value.dense_shape is None else [value.dense_shape])]
    if isinstance(value, SparseTensor):
        return [value.indices, value.values, value.dense_shape]
    return nest.flatten(value, expand_composites=True) if hasattr(value, "row_splits") else None


def _parts_of_value(value: Any) -> list[Any]:
    """The arrays of a value that is fed for a composite tensor."""
    parts = _parts(value)
    return [*map(np.asarray, parts)] if parts is not None else list(value)


def _operations(fetch: Any, fed: set[int]) -> list[Operation]:
    if isinstance(fetch, Operation):
        return [fetch]
    return [part.op for part in _parts(fetch) or [fetch] if id(part) not in fed]


def _tensors(fetch: Any) -> list[Any]:
    return [] if isinstance(fetch, Operation) else _parts(fetch) or [fetch]


def _fed(tensor: Any, value: Any) -> Any:
    """Convert a fed value to an array that fits its tensor."""
    if is_graph_value(value):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, "
            f"lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was {value!r} which was passed "
            f"to the argument `feed_dict` with key {tensor!r}."
        )
    try:
        array = np.asarray(value) if isinstance(value, Tensor) else array_from(value, tensor.dtype)
    except TypeError as error:
        raise ValueError(f"Cannot feed {value!r} for {tensor.name}: {error}") from None
    static = tensor._static
    if static.rank is not None and not static.is_compatible_with(array.shape):
        raise ValueError(
            f"Cannot feed value of shape {tuple(array.shape)} for Tensor {tensor.name}, which has shape {static}"
        )
    return array.astype(tensor.dtype.numpy_dtype, copy=False)
