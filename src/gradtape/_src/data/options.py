"""`tf.data.Options`: options of TensorFlow's runtime for a pipeline. gradtape stores them; its pipelines always run in
one thread and in order.
"""

from __future__ import annotations

from typing import Any


class _Settings:
    """Attributes from a fixed list, None until they are set."""

    _names: tuple[str, ...] = ()

    def __init__(self) -> None:
        for name in self._names:
            object.__setattr__(self, name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __ne__(self, other: object) -> bool:
        return not self == other


class AutotuneOptions(_Settings):
    """Options for buffer sizes; no effect in gradtape.

    >>> options = tf.data.Options()
    >>> options.autotune.enabled = False
    """

    _names = ("enabled", "cpu_budget", "ram_budget", "autotune_algorithm", "initial_parallelism", "min_parallelism")


class DistributeOptions(_Settings):
    """How a dataset is sharded among workers.

    >>> options = tf.data.Options()
    >>> type(options.experimental_distribute).__name__
    'DistributeOptions'
    """

    _names = ("auto_shard_policy", "num_devices")


class OptimizationOptions(_Settings):
    """Options for rewriting pipelines; no effect in gradtape.

    >>> options = tf.data.Options()
    >>> options.experimental_optimization.map_fusion = True
    """

    _names = (
        "apply_default_optimizations", "filter_fusion", "filter_parallelization", "inject_prefetch",
        "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion", "map_parallelization", "noop_elimination",
        "parallel_batch", "seq_interleave_prefetch", "shuffle_and_repeat_fusion",
    )  # fmt: skip


class ThreadingOptions(_Settings):
    """How many threads to use.

    >>> options = tf.data.Options()
    >>> options.threading.private_threadpool_size = 4
    >>> options.threading.private_threadpool_size
    4
    """

    _names = ("max_intra_op_parallelism", "private_threadpool_size")


class ServiceOptions(_Settings):
    """Options for TensorFlow's data service; no effect in gradtape.

    >>> options = tf.data.Options()
    >>> type(options.experimental_service).__name__
    'ServiceOptions'
    """

    _names = ("pinned",)


_PARTS = {
    "autotune": AutotuneOptions,
    "distribute": DistributeOptions,
    "experimental_distribute": DistributeOptions,
    "experimental_optimization": OptimizationOptions,
    "experimental_service": ServiceOptions,
    "experimental_threading": ThreadingOptions,
    "threading": ThreadingOptions,
}


class Options(_Settings):
    """Options of TensorFlow's runtime for a pipeline.

    >>> options = tf.data.Options()
    >>> options.deterministic = True
    >>> options.threading.private_threadpool_size = 2
    """

    _names = (
        "dataset_name", "deterministic", "experimental_deterministic", "experimental_external_state_policy",
        "experimental_slack", "experimental_symbolic_checkpoint", "experimental_warm_start", "framework_type", *_PARTS,
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        for name, kind in _PARTS.items():
            object.__setattr__(self, name, kind())

    def merge(self, options: Options) -> Options:
        """Return these options, updated with those that `options` sets.

        >>> a, b = tf.data.Options(), tf.data.Options()
        >>> b.deterministic = True
        >>> a.merge(b).deterministic
        True
        """
        made = Options()
        for source in (self, options):
            for name, value in vars(source).items():
                if name in _PARTS:
                    for inner, setting in vars(value).items():
                        if setting is not None:
                            setattr(getattr(made, name), inner, setting)
                elif value is not None:
                    setattr(made, name, value)
        return made
