"""`tf.config`: engines, devices, and what happens when a gradient is None."""

import typing as _typing

from gradtape._src.tf.config import (
    LogicalDevice as LogicalDevice,
    LogicalDeviceConfiguration as LogicalDeviceConfiguration,
    PhysicalDevice as PhysicalDevice,
    experimental as experimental,
    experimental_connect_to_cluster as experimental_connect_to_cluster,
    experimental_connect_to_host as experimental_connect_to_host,
    experimental_functions_run_eagerly as experimental_functions_run_eagerly,
    experimental_run_functions_eagerly as experimental_run_functions_eagerly,
    functions_run_eagerly as functions_run_eagerly,
    get_engine as get_engine,
    get_graph_mode as get_graph_mode,
    get_logical_device_configuration as get_logical_device_configuration,
    get_none_policy as get_none_policy,
    get_soft_device_placement as get_soft_device_placement,
    get_visible_devices as get_visible_devices,
    graph_mode_report as graph_mode_report,
    list_logical_devices as list_logical_devices,
    list_physical_devices as list_physical_devices,
    optimizer as optimizer,
    run_functions_eagerly as run_functions_eagerly,
    set_compilation_cache as set_compilation_cache,
    set_compiler_options as set_compiler_options,
    set_engine as set_engine,
    set_graph_mode as set_graph_mode,
    set_logical_device_configuration as set_logical_device_configuration,
    set_none_policy as set_none_policy,
    set_soft_device_placement as set_soft_device_placement,
    set_visible_devices as set_visible_devices,
    threading as threading,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
