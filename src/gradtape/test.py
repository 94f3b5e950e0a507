"""`tf.test`: test cases, numeric gradient checks, and available devices."""

import typing as _typing

from gradtape._src.tf.test import (
    __dir__ as __dir__,
    compute_gradient as compute_gradient,
    gpu_device_name as gpu_device_name,
    is_built_with_cuda as is_built_with_cuda,
    is_built_with_gpu_support as is_built_with_gpu_support,
    is_built_with_rocm as is_built_with_rocm,
    is_built_with_xla as is_built_with_xla,
    is_cpu_target_available as is_cpu_target_available,
    is_gpu_available as is_gpu_available,
)

if _typing.TYPE_CHECKING:
    from gradtape._src.tf.test import (
        Benchmark as Benchmark,
        TestCase as TestCase,
        assert_equal_graph_def as assert_equal_graph_def,
        disable_with_predicate as disable_with_predicate,
        main as main,
        with_eager_op_as_function as with_eager_op_as_function,
    )
else:
    from gradtape._src.lazy_names import of_public as _of_public
    from gradtape._src.tf.test import __getattr__ as _load

    __getattr__ = _of_public(__name__, _load)
