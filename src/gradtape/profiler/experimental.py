"""Profiles of programs: JAX's profiler, whose files TensorBoard's profile plugin and Perfetto can read."""

import typing as _typing

from gradtape._src.tf.profiler import (
    Profile as Profile,
    ProfilerOptions as ProfilerOptions,
    Trace as Trace,
    start as start,
    stop as stop,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
