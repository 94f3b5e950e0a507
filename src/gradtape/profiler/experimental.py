"""Profiles of what runs: JAX's profiler, whose files TensorBoard's profile plugin and Perfetto read."""

from gradtape._src.tf.profiler import (
    Profile as Profile,
    ProfilerOptions as ProfilerOptions,
    Trace as Trace,
    start as start,
    stop as stop,
)
