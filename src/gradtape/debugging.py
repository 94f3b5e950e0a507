"""`tf.debugging`: assertions about tensors. They return None, or raise what TensorFlow raises."""

import typing as _typing

from gradtape._src.tf.debugging import (
    Assert as Assert,
    LiveView as LiveView,
    assert_all_finite as assert_all_finite,
    assert_equal as assert_equal,
    assert_greater as assert_greater,
    assert_greater_equal as assert_greater_equal,
    assert_integer as assert_integer,
    assert_less as assert_less,
    assert_less_equal as assert_less_equal,
    assert_near as assert_near,
    assert_negative as assert_negative,
    assert_non_negative as assert_non_negative,
    assert_non_positive as assert_non_positive,
    assert_none_equal as assert_none_equal,
    assert_positive as assert_positive,
    assert_proper_iterable as assert_proper_iterable,
    assert_rank as assert_rank,
    assert_rank_at_least as assert_rank_at_least,
    assert_rank_in as assert_rank_in,
    assert_same_float_dtype as assert_same_float_dtype,
    assert_scalar as assert_scalar,
    assert_shapes as assert_shapes,
    assert_type as assert_type,
    check_numerics as check_numerics,
    disable_check_numerics as disable_check_numerics,
    disable_traceback_filtering as disable_traceback_filtering,
    enable_check_numerics as enable_check_numerics,
    enable_traceback_filtering as enable_traceback_filtering,
    get_log_device_placement as get_log_device_placement,
    is_numeric_tensor as is_numeric_tensor,
    is_traceback_filtering_enabled as is_traceback_filtering_enabled,
    set_log_device_placement as set_log_device_placement,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
