"""tf.test: the numeric check of a gradient (a longer one is `gradtape.testing.check_gradients`), and what is there."""

from gradtape._src.tf.test import (
    compute_gradient as compute_gradient,
    gpu_device_name as gpu_device_name,
    is_built_with_cuda as is_built_with_cuda,
    is_built_with_gpu_support as is_built_with_gpu_support,
    is_built_with_rocm as is_built_with_rocm,
    is_built_with_xla as is_built_with_xla,
    is_cpu_target_available as is_cpu_target_available,
    is_gpu_available as is_gpu_available,
)
