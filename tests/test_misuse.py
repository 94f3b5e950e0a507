"""Wrong arguments: TensorFlow's class of error, a sentence of this library, and nothing changed behind it."""

from __future__ import annotations

import collections
import dis
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tf_cases import conversions, misuse

import gradtape as tf
from gradtape._src.arrays.seeds import seeds
from gradtape._src.core import composites, tape as recorders

DATA = Path(__file__).parent / "recorded"
PACKAGE = str(Path(tf.__file__).parent)


# -- values that become tensors --------------------------------------------------------------------------------------
CONVERSIONS = json.loads((DATA / "conversions_tensorflow.json").read_text())


def _conversion_differs_on_purpose(form, dtype, value, expected, found):
    if value == "np.float32":  # a class: TensorFlow fails on NumPy's unbound __array__, here it is no supported value
        return found == "ValueError"
    if value.startswith("range("):  # TensorFlow runs the op Range, which has kernels for few dtypes
        return form in ("convert", "hint", "variable")
    if dtype == "tf.uint64":  # what does not fit: TensorFlow raises SystemError, or makes 2**64 - 1 of it
        strange = expected == "SystemError" or "18446744073709551615" in expected
        return strange and (found in ("ValueError", "TypeError") or form == "hint")
    # Strings from a list with tensors: TensorFlow refuses to cast the tensor, here the plain member comes first.
    return dtype == "tf.string" and expected == "UnimplementedError" and "tf." in value


@pytest.mark.parametrize("key", CONVERSIONS["rows"])
def test_conversions(key):
    form, dtype = key.split(" ")
    expected = [CONVERSIONS["outcomes"][int(n)] for n in CONVERSIONS["rows"][key].split(" ")]
    found = conversions.outcomes(tf, form, dtype)
    wrong = [
        f"{value}: TensorFlow {theirs}, here {ours}"
        for value, theirs, ours in zip(conversions.VALUES, expected, found, strict=True)
        if theirs != ours and not _conversion_differs_on_purpose(form, dtype, value, theirs, ours)
    ]
    assert not wrong, "\n".join(wrong)


# -- every function, every argument, every wrong value ---------------------------------------------------------------
RECORDED = misuse.load(DATA / "misuse_tensorflow.json")

# TensorFlow's own code fails by accident (on an attribute, an index, a missing kernel): no class to agree on.
ACCIDENTS = {
    "AbortedError", "AssertionError", "AttributeError", "IndexError", "InternalError", "KeyError", "MemoryError",
    "NotFoundError", "NotImplementedError", "OverflowError", "RecursionError", "ResourceExhaustedError", "SystemError",
    "UnboundLocalError", "UnimplementedError", "ZeroDivisionError", "crash",
}  # fmt: skip

EMPTY = {"dict", "empty list", "zero", "empty tensor"}
NUMBERS = {"complex", "complex vector", "half vector", "double vector", "double array", "fraction"}

# What is accepted or refused in another way than in TensorFlow, and why: (reason, wrong values, functions#slots).
DIFFERENCES = [
    (
        "a value that is False counts as None there",
        EMPTY,
        "TensorArray#0 Variable#name assert_same_float_dtype#dtype assert_shapes#0 bincount#dtype "
        "categorical#dtype control_dependencies#0 conv1d_transpose#1 conv2d_transpose#1 conv3d_transpose#1 "
        "conv_transpose#1 ctc_loss#blank_index dct#axis eigh_tridiagonal#0 map_fn#fn_output_signature "
        "matvec#adjoint_a shape#out_type softmax_cross_entropy_with_logits#axis squeeze#axis "
        "stateless_categorical#dtype sufficient_statistics#1 unstack#num",
    ),
    (
        "numbers that are no integers are cut off there to make sizes",
        NUMBERS | {"byte vector", "bytes", "int vector", "range", "true", "variable"},
        "argsort#axis atrous_conv2d#2 avg_pool#1 avg_pool#2 avg_pool1d#1 avg_pool1d#2 avg_pool2d#1 avg_pool2d#2 "
        "avg_pool3d#1 avg_pool3d#2 conv1d#2 conv1d#dilations conv1d_transpose#2 conv1d_transpose#3 conv2d#2 "
        "conv2d#dilations conv2d_transpose#2 conv3d_transpose#2 conv_transpose#2 convolution#dilations "
        "convolution#strides ctc_loss#3 gamma#0 inverse_stft#fft_length irfft3d#fft_length max_pool#1 max_pool#2 "
        "max_pool1d#1 max_pool1d#2 max_pool2d#1 max_pool2d#2 max_pool3d#1 max_pool3d#2 max_pool_with_argmax#1 "
        "max_pool_with_argmax#2 poisson#0 pool#1 rfft3d#fft_length sort#axis stft#fft_length unravel_index#0 "
        "while_loop#maximum_iterations",
    ),
    (
        "a date counts there as a number of days, or NumPy fails on it",
        {"date"},
        "Variable#0 clip_by_norm#1 combined_non_max_suppression#3 diag#num_rows embedding_lookup#max_norm "
        "fake_quant_with_min_max_vars#1 hamming_window#0 hann_window#0 kaiser_bessel_derived_window#0 "
        "kaiser_window#0 non_max_suppression_with_scores#2 normalize_moments#0 repeat#1 rot90#k "
        "sufficient_statistics#shift vorbis_window#0",
    ),
    (
        "this library has the kernel, and TensorFlow none for the dtype",
        {"byte vector", "complex vector", "double array", "double vector", "int tensor", "int vector",
         "int64 vector", "range", "true"},
        "TensorArray#1 argmax#0 bincount#0 combined_non_max_suppression#3 crop_and_resize#3 diag_part#k "
        "eye#batch_shape gamma#0 grayscale_to_rgb#0 histogram_fixed_width_bins#0 "
        "linear_to_mel_weight_matrix#lower_edge_hertz moments#0 norm#axis normalize#axis normalize_moments#0 "
        "poisson#0 shape_n#0 strided_slice#1 tensordot#2 truncatemod#0",
    ),
    (
        "plain integers take the dtype beside them; there a range stays int32",
        {"date", "huge", "minus", "range", "seven", "true", "zero"},
        "fft#0 ifft#0 irfft#0 log_poisson_loss#0 matvec#1 normalize_moments#0 "
        "sigmoid_cross_entropy_with_logits#labels sufficient_statistics#shift tensordot#1 "
        "weighted_cross_entropy_with_logits#0 weighted_cross_entropy_with_logits#2",
    ),
    (
        "True is 1 here",
        {"true"},
        "frame#1 frame#2 from_seed#0 inverse_stft#1 split#num stft#1 stft#2",
    ),
    (
        "NaN is not compared with anything here",
        {"nan"},
        "fake_quant_with_min_max_args#max fake_quant_with_min_max_args#min",
    ),
    (
        "None stands for the default dtype here",
        {"none"},
        "normal#dtype poisson#dtype stateless_binomial#output_dtype stateless_poisson#dtype svd#compute_uv "
        "truncated_normal#dtype",
    ),
    (
        "checked here, where TensorFlow goes on with a value that cannot mean anything",
        set(misuse.WRONG) | {"unknown keyword"},
        "IndexedSlices#0 IndexedSlices#1 IndexedSlices#dense_shape TensorArray#0 TensorArray#1 Variable#call "
        "add_n#0 adjust_gamma#gain assert_near#atol assert_near#rtol assert_proper_iterable#0 assert_rank_in#1 "
        "assert_same_float_dtype#0 bincount#weights clip_by_global_norm#use_norm collapse_repeated#0 "
        "collapse_repeated#1 combined_non_max_suppression#iou_threshold compute_average_loss#0 conv1d_transpose#1 "
        "conv2d_transpose#1 conv3d_transpose#1 conv_transpose#1 convolution#dilations ctc_loss#blank_index "
        "dropout#0 dropout#1 dropout#noise_shape dynamic_stitch#0 eigh_tridiagonal#0 embedding_lookup#0 expm#0 "
        "eye#batch_shape fake_quant_with_min_max_vars#1 fake_quant_with_min_max_vars_per_channel#1 gather#axis "
        "group#call histogram_fixed_width_bins#0 hsv_to_rgb#0 identity_n#0 inverse_mdct#0 is_non_decreasing#0 "
        "is_strictly_increasing#0 kaiser_bessel_derived_window#beta kaiser_window#beta lstsq#fast "
        "lstsq#l2_regularizer map_fn#fn_output_signature pinv#validate_args poisson#1 polyval#0 rgb_to_hsv#0 "
        "softmax_cross_entropy_with_logits#0 stateless_dropout#0 stateless_dropout#1 "
        "stateless_dropout#noise_shape sufficient_statistics#1 tensor_diag_part#0 unravel_index#0 "
        "weighted_moments#0 where#0 while_loop#2",
    ),
    (
        "accepted here: there is a plain meaning",
        {"byte vector", "bytes", "class", "double array", "empty list", "empty rows", "empty tensor",
         "fraction", "huge", "int tensor", "int vector", "minus", "nan", "range", "set", "seven",
         "text tensor", "true", "variable", "wrong rank", "wrong shape", "zero"},
        "bincount#0 bincount#dtype case#0 depthwise_conv2d#dilations fftshift#axes ifftshift#axes irfft2d#0 "
        "linear_to_mel_weight_matrix#2 m#stop map_fn#0 matrix_rank#tol mdct#0 ones_like#dtype pool#dilations "
        "pool#strides rfft2d#0 separable_conv2d#dilations set_seed#0 shape_n#0 sufficient_statistics#1 "
        "vectorized_map#0 while_loop#0 while_loop#1 while_loop#2 zeros_like#dtype",
    ),
    (
        "another shape or dtype of the same",
        {"bool vector", "complex", "complex vector", "double array", "empty list", "empty rows",
         "empty tensor", "fraction", "seven", "true", "variable"},
        "TensorSpec#0 bincount#weights decode_raw#0 meshgrid#0 non_max_suppression_with_scores#1 "
        "non_max_suppression_with_scores#2 non_max_suppression_with_scores#soft_nms_sigma norm#0 "
        "reduce_euclidean_norm#0",
    ),
    (
        "shape_n takes any iterable, and each member by itself",
        {"mixed list", "set", "text array"},
        "shape_n#0",
    ),
    (
        "a boolean is no index into an axis here",
        {"true"},
        "m#last",
    ),
    (
        "a number for a whole slice: planned with the slices of variables",
        set(misuse.WRONG),
        "Variable#0",
    ),
    (
        "a range is a constant, which | takes",
        {"range"},
        "i#right",
    ),
]  # fmt: skip

MOST_OTHER_CLASSES = {  # of refusals that both have, how many per cent have another class here
    "tf": 4.5, "math": 3.5, "linalg": 6.5, "nn": 8.0, "signal": 8.0, "image": 17.0, "random": 6.5, "debugging": 1.5,
}  # fmt: skip


def _group(call):
    found = re.match(r"tf\.(\w+)\.", call)
    return found.group(1) if found and found.group(1) in MOST_OTHER_CLASSES else "tf"


def _place(call, slot):
    """A short name of an argument: function#slot."""
    function = re.split(r"[(\[ ]", call.removeprefix("tf."))[0].split(".")[-1]
    return f"{function}#{slot.split(' ')[0]}"


def _is_refusal(outcome):
    return outcome.endswith("Error") or outcome == "crash"


def _is_raw(error):
    """Whether an error was raised by NumPy, JAX or Python itself inside of the package."""
    frame = error.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    code = frame.tb_frame.f_code
    if code.co_filename == "<string>":  # the call itself does not fit the signature, or the wrong value is called
        return False
    wrappers = [wrap(lambda: None).__code__ for wrap in (composites.dispatched, composites.hosted)]
    if code in wrappers:  # the same, of a function that also takes ragged or sparse tensors
        return False
    return not code.co_filename.startswith(PACKAGE) or code.co_code[frame.tb_lasti] != dis.opmap["RAISE_VARARGS"]


def _is_callbacks_own(call, error):
    """An error of a function that was passed: `lambda: 3` called with arguments, `abs` of a text."""
    return "<lambda>()" in str(error) or "map_structure" in call


def _explained(call, slot, wrong):
    place = _place(call, slot)
    return any(wrong in values and place in places.split(" ") for _, values, places in DIFFERENCES)


@pytest.mark.parametrize("group", MOST_OTHER_CLASSES)
def test_wrong_arguments(group):
    """Refused and accepted as in TensorFlow, with its class as a rule, and never by an error from further inside."""
    scope = misuse.names(tf)
    raw, different, drew, classes, refusals = [], [], [], 0, 0
    for call, rows in RECORDED.items():
        if _group(call) != group:
            continue
        outcomes = {slot: iter(row) for slot, row in rows.items()}
        for slot, wrong, expression in misuse.cases(call):
            expected = next(outcomes[slot])
            before = seeds._positions.copy(), seeds._ops and seeds._ops.getstate()
            found, error = misuse.outcome(expression, scope)
            if error is not None and _is_raw(error) and not _is_callbacks_own(call, error):
                raw.append(f"{expression}: {type(error).__name__}: {error}")
            if error is not None and before != (seeds._positions, seeds._ops and seeds._ops.getstate()):
                drew.append(expression)
            if _is_refusal(expected) and _is_refusal(found):
                refusals += 1
                classes += found != expected and expected not in ACCIDENTS
            elif found != expected and expected not in ACCIDENTS and not _explained(call, slot, wrong):
                different.append(f"{expression}: TensorFlow {expected}, here {found}")
    tf.random.set_seed(None)
    assert recorders.active_stack() is None
    assert not raw, "\n".join(raw)
    assert not drew, "\n".join(drew)
    assert not different, "\n".join(different)
    assert classes <= MOST_OTHER_CLASSES[group] / 100 * refusals, f"{classes} of {refusals}"


# -- nothing is changed by what is refused ---------------------------------------------------------------------------
REFUSED = [
    lambda v: v.assign([1.0, 2.0, 3.0]),
    lambda v: v.assign(["a", "b"]),
    lambda v: v.assign(None),
    lambda v: v.assign_add([[1.0], ["a"]]),
    lambda v: v.assign_sub(tf.constant([1, 2])),
    lambda v: v.scatter_nd_add([[0], [7]], [1.0, 1.0]),
    lambda v: v.scatter_nd_update([[0]], [1.0, 2.0]),
    lambda v: v.scatter_add(tf.IndexedSlices([1.0], [5])),
    lambda v: v[5].assign(1.0),
    lambda v: v + "a",
    lambda v: v + tf.constant(1),
    lambda v: tf.matmul(v, v),
    lambda v: tf.concat([v, [[1.0]]], 0),
    lambda v: tf.reshape(v, [3]),
    lambda v: tf.nn.softmax_cross_entropy_with_logits([[1.0, 0.0, 0.0]], v),
    lambda v: tf.linalg.cholesky([[1.0, 2.0], [2.0, 1.0]]),
    lambda v: tf.random.uniform([2], 5, 1, tf.int32),
    lambda v: tf.random.normal([2], mean="a"),
    lambda v: tf.nn.dropout(v, 0.5, noise_shape=[7]),
    lambda v: tf.map_fn(lambda row: row + "a", v),
    lambda v: tf.while_loop(lambda i: i < 2, lambda i: i + "a", [tf.constant(0)]),
    lambda v: tf.cond(v, lambda: 1, lambda: 2),
    lambda v: tf.vectorized_map(lambda row: tf.reshape(row, [5]), v, fallback_to_while_loop=False),
    lambda v: tf.function(lambda x: x + "a")(v),
    lambda v: tf.custom_gradient(lambda x: x)(v),
    lambda v: tf.sin(object()),
]


@pytest.mark.parametrize("refused", REFUSED)
def test_nothing_is_changed_by_what_is_refused(refused):
    """The variable, an open tape and an accumulator, the position of the random numbers: all as before."""
    tf.random.set_seed(3)
    expected = tf.random.uniform([2]).numpy()
    tf.random.set_seed(3)
    v, operand = tf.Variable([1.0, 2.0]), tf.constant([3.0, 4.0])
    with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 1.0])) as forward, tf.GradientTape() as tape:
        y = v * operand
        with pytest.raises((TypeError, ValueError, tf.errors.OpError)):
            refused(v)
        z = y * y
    assert v.numpy().tolist() == [1.0, 2.0]
    assert tape.gradient(z, v).numpy().tolist() == [2 * 1 * 9.0, 2 * 2 * 16.0]
    assert forward.jvp(z).numpy().tolist() == [2 * 1 * 9.0, 2 * 2 * 16.0]
    np.testing.assert_array_equal(tf.random.uniform([2]).numpy(), expected)
    assert recorders.active_stack() is None
    v.assign_add([1.0, 1.0])
    assert v.numpy().tolist() == [2.0, 3.0]


def test_every_difference_is_still_one():
    """Nothing is excused that does not happen any more: each place is an argument of the table."""
    places = {_place(call, slot) for call, rows in RECORDED.items() for slot in rows}
    for reason, values, named in DIFFERENCES:
        assert values <= set(misuse.WRONG) | set(misuse.SHAPE_OF_CALL), reason
        twice = [place for place, count in collections.Counter(named.split(" ")).items() if count > 1]
        assert not twice, reason
        assert set(named.split(" ")) <= places, reason
