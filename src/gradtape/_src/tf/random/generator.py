"""`tf.random.Generator`: random numbers from an explicit state."""

from __future__ import annotations

import os
from enum import IntEnum
from typing import Any

import numpy as np

from gradtape._src import errors, forks
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import array_from, cast, constant_operand, convert, is_library, operand, wrap
from gradtape._src.distribute.context import get_replica_context, has_strategy
from gradtape._src.dtypes import as_dtype
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import integer, static
from gradtape._src.tf.random.distributions import (
    BLOCKS_PER_NUMBER,
    checked_shape,
    draw_binomial,
    draw_normal,
    draw_numbers,
    draw_truncated_normal,
    draw_uniform,
    watchable,
)
from gradtape._src.tf.random.streams import INT64, Array, block_count, run_kernel
from gradtape._src.variable import Variable


class Algorithm(IntEnum):
    """The algorithm of random bits. Only Philox is implemented; TensorFlow has ThreeFry only on XLA devices.

    >>> tf.random.Algorithm.PHILOX.value
    1
    """

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


def as_algorithm(alg: Any) -> Algorithm:
    if alg is None:
        return Algorithm.AUTO_SELECT
    if isinstance(alg, str):
        name = alg.strip().lower().replace("-", "").replace("_", "")
        found = next((a for a in Algorithm if a.name.replace("_", "").lower() == name), None)
        words: tuple[Any, ...] = ("philox", "threefry", "auto_select")
    elif isinstance(alg, (int, Tensor)):
        number = int(static(alg))
        found, words = next((a for a in Algorithm if a == number), None), (1, 2, 3)
    else:
        raise TypeError(f"Can't convert argument `alg` (of value {alg} and type {type(alg)}) to int.")
    if found is None:
        raise ValueError(
            f"Argument `alg` got unsupported value {alg}. Supported values are {words[0]} for the Philox algorithm, "
            f"{words[1]} for the ThreeFry algorithm, and {words[2]} for auto-selection."
        )
    return found


def _no_threefry() -> Exception:
    return errors.UnimplementedError(
        None, None, "Non-XLA devices don't support the ThreeFry algorithm. Use alg='philox'. [Op:RngReadAndSkip]"
    )


def _words(value: int) -> list[int]:
    """An integer as 64-bit words, lowest first."""
    words = [value & (2**64 - 1)]
    rest = value >> 64
    while rest not in (0, -1):
        words.append(rest & (2**64 - 1))
        rest >>= 64
    return words


def _state_of(seed: Any, size: int = 3) -> Any:
    """TensorFlow's state [counter, counter, key] for a seed: an integer fills its low end, a list its high end."""
    if isinstance(seed, int):
        fill = 2**64 - 1 if seed < 0 else 0
        words = (_words(int(seed)) + [fill] * 3)[:size]
    else:
        plain = static(seed)
        listed = np.ravel(np.asarray(plain) if is_library(seed) else array_from(_wrapped(plain)))
        if listed.dtype.kind == "O":
            raise errors.UnimplementedError(None, None, "Cast string to int64 is not supported [Op:Cast]")
        with float_errors_ignored():
            whole = np.asarray(listed.real if listed.dtype.kind == "c" else listed).astype(np.int64, copy=False)
        words = ([0] * size + [int(n) % 2**64 for n in whole[:size]])[-size:]
    return np.array(words, np.uint64).view(np.int64)


def _wrapped(seed: Any) -> Any:
    """Convert unsigned 64-bit Python integers to the signed ones with the same bits."""
    if isinstance(seed, (list, tuple)):
        return [_wrapped(n) for n in seed]
    return seed - 2**64 if isinstance(seed, int) and seed >= 2**63 else seed


def create_rng_state(seed: Any, alg: Any) -> Tensor:
    """Return the state that a generator with this seed starts from.

    >>> tf.random.create_rng_state(5, "philox").numpy().tolist()
    [5, 0, 0]
    """
    if as_algorithm(alg) is Algorithm.THREEFRY:
        return wrap(_state_of(seed, 2))
    return wrap(_state_of(seed))


class Generator:
    """A stream of random numbers whose state can be read, set and split.

    >>> g = tf.random.Generator.from_seed(7)
    >>> print(g.uniform([2]).numpy().round(4))
    [0.3993 0.7841]
    >>> g.state.numpy().tolist()
    [519, 0, 0]

    >>> g = tf.random.Generator.from_seed(1)
    >>> g.uniform([2]).shape, g.normal([2]).shape, g.truncated_normal([2]).shape
    (TensorShape([2]), TensorShape([2]), TensorShape([2]))
    >>> g.binomial([2], counts=10, probs=0.5).shape, g.uniform_full_int([2]).dtype
    (TensorShape([2]), tf.uint64)
    >>> saved = g.state.numpy()
    >>> first = g.normal([])
    >>> g.reset(saved)
    >>> bool(g.normal([]) == first)
    True
    >>> again = tf.random.Generator.from_state(saved, alg="philox")
    >>> bool(again.normal([]) == first)
    True
    >>> g.algorithm, g.make_seeds(2).shape, len(g.split(3))
    (1, TensorShape([2, 2]), 3)
    >>> _ = g.skip(4)
    >>> g.reset_from_seed(7)
    >>> g.reset_from_key_counter(key=3, counter=[0, 0])
    >>> g.key.numpy().item()
    3
    >>> h = tf.random.Generator.from_key_counter(key=3, counter=[0, 0], alg="philox")
    >>> bool(g.normal([]) == h.normal([]))
    True
    >>> tf.random.Generator.from_non_deterministic_state().normal([2]).shape
    TensorShape([2])
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = None) -> None:
        if copy_from is not None:
            if state is not None or alg is not None:
                raise ValueError("state and alg must be None if copy_from is given.")
            state, alg = copy_from.state.numpy(), copy_from.algorithm
        elif state is None or alg is None:
            raise ValueError("A Generator needs a state and an algorithm, or another generator to copy: use from_seed.")
        self._alg = as_algorithm(alg)
        self._lock = forks.lock()
        self._is_distributed = has_strategy()  # then every replica draws its own numbers
        self._state_var = Variable(self._checked(state), trainable=False, name="StateVar")

    def _trackable_children(self) -> dict[str, Any]:
        """The state that checkpoints save."""
        return {"_state_var": self._state_var}

    def _checked(self, state: Any) -> Tensor:
        words = operand(state).array
        size = 2 if self._alg is Algorithm.THREEFRY else 3
        if tuple(words.shape) != (size,):
            raise ValueError(f"Shapes {tuple(words.shape)} and [{size}] are incompatible")
        return wrap(_int64(words))

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        """Create a generator that continues from a state."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """Create a generator that starts from a seed: an integer, or up to three of them."""
        alg = "philox" if alg is None else alg
        return cls(state=create_rng_state(seed, alg), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """Create a generator with a random seed."""
        alg = "philox" if alg is None else alg
        size = 2 if as_algorithm(alg) is Algorithm.THREEFRY else 3
        return cls(state=np.frombuffer(os.urandom(8 * size), np.int64), alg=alg)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Generator:
        """Create a generator with this key and this counter (two numbers)."""
        return cls(state=_joined(key, counter), alg=alg)

    # -- state -------------------------------------------------------------------------------------------------------
    @property
    def state(self) -> Variable:
        """The counter (two numbers) and the key."""
        return self._state_var

    @property
    def algorithm(self) -> int:
        """The number of the algorithm: 1 for Philox."""
        return int(self._alg)

    @property
    def key(self) -> Tensor:
        """The key: the last number of the state."""
        return self._state_var.value()[-1]

    def reset(self, state: Any) -> None:
        """Continue from a state."""
        with self._lock:
            self._state_var.assign(self._checked(state))

    def reset_from_seed(self, seed: Any) -> None:
        """Start again from a seed."""
        self.reset(create_rng_state(seed, self._alg))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Continue with this key and counter."""
        self.reset(_joined(key, counter))

    def skip(self, delta: Any) -> Tensor:
        """Skip `delta` numbers and return the previous state."""
        given = operand(delta).array
        return wrap(self._advance(np.asarray(integer(delta)) if is_known(given) else given))

    def _advance(self, numbers: Array, each: int = BLOCKS_PER_NUMBER) -> Array:
        if self._alg is Algorithm.THREEFRY:
            raise _no_threefry()
        with self._lock:  # two threads never get the same numbers
            before = self._state_var.value().array
            self._state_var.assign(wrap(run_kernel("advanced_state", before, numbers, each=each)))
        return before

    def _stream(self, op: Any, blocks: Any) -> Array:
        return run_kernel("stream_of_state", self._of_replica(self._advance(block_count(blocks), each=1)))

    def _of_replica(self, state: Array) -> Array:
        """The state with a key for this replica, drawn with the index of the replica as the counter."""
        context = get_replica_context() if self._is_distributed and has_strategy() else None
        if context is None:
            return state
        words = wrap(state)
        number = array.reshape(cast(convert(context.replica_id_in_sync_group), as_dtype("int64")), shape=(1,))
        counter = array.concatenate(number, constant_operand(np.zeros(1, INT64)), axis=0)
        start = array.concatenate(counter, words[2:], axis=0).array
        name = "StatelessRandomUniformFullIntV2"
        key = draw_numbers(
            "random_integers",
            name,
            lambda op, blocks: run_kernel("stream_of_state", start),
            checked_shape([1], name),
            as_dtype("int64"),
        )
        result: Tensor = array.concatenate(words[:2], watchable(key), axis=0)
        return result.array

    # -- numbers -----------------------------------------------------------------------------------------------------
    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
    ) -> Tensor:
        """Draw normal numbers, differentiable with respect to `mean` and `stddev`."""
        return draw_normal(self._stream, shape, mean, stddev, dtype, "StatelessRandomNormalV2")

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
    ) -> Tensor:
        """Draw normal numbers at most two standard deviations from the mean."""
        return draw_truncated_normal(self._stream, shape, mean, stddev, dtype, "StatelessTruncatedNormalV2")

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", name: str | None = None
    ) -> Tensor:
        """Draw numbers in [minval, maxval), or integers of the whole range if both are None."""
        return draw_uniform(self._stream, shape, minval, maxval, dtype, "StatelessRandomUniformV2", full=True)

    def uniform_full_int(self, shape: Any, dtype: Any = "uint64", name: str | None = None) -> Tensor:
        """Draw integers of the whole range of a 32-bit or 64-bit dtype."""
        kind = as_dtype(dtype)
        if kind.name not in ("int32", "int64", "uint32", "uint64"):
            raise ValueError(f"Argument `dtype` got invalid value {kind!r}. Use a dtype of 32 or 64 bits.")
        where = checked_shape(shape, "StatelessRandomUniformFullIntV2")
        return watchable(draw_numbers("random_integers", "StatelessRandomUniformFullIntV2", self._stream, where, kind))

    def binomial(self, shape: Any, counts: Any, probs: Any, dtype: Any = "int32", name: str | None = None) -> Tensor:
        """Draw binomial counts."""
        if self._alg is not Algorithm.PHILOX:
            raise errors.invalid_argument(f"Unsupported algorithm id: {int(self._alg)}", "StatefulRandomBinomial")
        return draw_binomial(self._stream, shape, counts, probs, dtype, "StatefulRandomBinomial")

    # -- more generators ---------------------------------------------------------------------------------------------
    def make_seeds(self, count: Any = 1) -> Tensor:
        """Draw seeds [2, count] for stateless functions."""
        keys = self.uniform_full_int([integer(count)], "int64")
        result: Tensor = array.stack(keys, constant_operand(np.zeros(integer(count), INT64)), axis=0)
        return result

    def split(self, count: Any = 1) -> list[Generator]:
        """Create independent generators, each with its own key."""
        keys = np.asarray(self.uniform_full_int([integer(count)], "int64").array)
        return [Generator(state=np.array([0, 0, key], np.int64), alg=self._alg) for key in keys]


def _int64(words: Array) -> Array:
    return namespace_of(words).astype(words, dtype=INT64, source=words.dtype)


def _joined(key: Any, counter: Any) -> Tensor:
    key_, counter_ = operand(key).array, operand(counter).array
    if key_.size != 1 or counter_.size != 2:
        raise ValueError(f"key must be one number and counter two. Received shapes {key_.shape} and {counter_.shape}.")
    words = [wrap(_int64(words.reshape(-1))) for words in (counter_, key_)]
    return array.concatenate(*words, axis=0)


_global_generator: list[Generator] = []
_global_lock = forks.lock()


def get_global_generator() -> Generator:
    """Return the global generator, which is created on first use.

    >>> tf.random.get_global_generator().normal([2]).shape
    TensorShape([2])
    """
    with _global_lock:
        if not _global_generator:
            _global_generator.append(Generator.from_non_deterministic_state())
        return _global_generator[0]


def set_global_generator(generator: Generator) -> None:
    """Replace the global generator.

    >>> tf.random.set_global_generator(tf.random.Generator.from_seed(3))
    """
    with _global_lock:
        _global_generator[:] = [generator]


"""Class numbers of random words."""
