"""Recurrent networks, step by step, so that tapes record every step. In a program they are loops."""

from __future__ import annotations

from typing import Any, NoReturn

from keras.src import tree

from gradtape._src.arrays.symbolic import filled
from gradtape._src.conversion import wrap
from gradtape._src.keras_backend.core import dense as convert_to_tensor, is_traced, scan, unstack
from gradtape._src.ops import array, math as elementwise
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array as arrays


def rnn(
    step_function: Any,
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """The last output, all outputs and the final states.

    A masked step leaves the states unchanged; its output is the previous one, or zeros.
    """
    axis = 0 if time_major else 1
    inputs = tree.map_structure(convert_to_tensor, inputs)
    rows = (inputs,) if mask is None else (inputs, convert_to_tensor(mask, "bool"))
    steps = tree.flatten(inputs)[0].array.shape[axis]
    if not steps:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    constants = tuple(constants or ())

    def step(output: Any, states: Any, given: Any, valid: Any = None) -> tuple[Any, Any]:
        new_output, new_states = step_function(given, tuple(states) + constants)
        new_states = tuple(new_states)
        if valid is None:
            return new_output, new_states
        before = arrays.zeros_like(new_output) if output is None or zero_output_for_mask else output
        chosen = tree.map_structure(lambda new, old: _chosen(valid, new, old), new_states, tuple(states))
        return _chosen(valid, new_output, before), chosen

    output: Any = None
    states = tuple(initial_states)
    if not unroll and is_traced(rows, states):
        rows = tree.map_structure(lambda row: _swapped(row, axis), rows)
        output, outputs, states = _looped(step, states, rows, go_backwards)
        return output, _swapped(outputs, axis) if return_all_outputs else arrays.stack([output], axis), states
    columns = [unstack(row, axis=axis) for row in tree.flatten(rows)]
    collected = []
    for t in reversed(range(steps)) if go_backwards else range(steps):
        output, states = step(output, states, *tree.pack_sequence_as(rows, [column[t] for column in columns]))
        if return_all_outputs:
            collected.append(output)
    return output, arrays.stack(collected if return_all_outputs else [output], axis), states


def _looped(step: Any, states: Any, rows: Any, go_backwards: bool) -> tuple[Any, Any, Any]:
    """Run the steps as one loop of the program that is being traced, over rows with time first."""
    carried: tuple[Any, ...] = ()
    if len(rows) > 1:  # masked steps use the previous output: initially zeros
        from gradtape._src.graph.control_flow import abstract_eval  # imports JAX

        like = abstract_eval(lambda *row: step(None, states, *row)[0], tree.map_structure(lambda row: row[0], rows))
        carried = (wrap(filled(like.array.shape, like.array.dtype, 0)),)

    def iterate(carry: Any, row: Any) -> tuple[Any, Any]:
        before, now = carry
        output, after = step(before[0] if before else None, now, *row)
        return ((output,) if before else (), after), output

    (_, states), outputs = scan(iterate, (carried, states), rows, reverse=go_backwards)
    if go_backwards:  # in the order of computation
        outputs = arrays.reverse(outputs, [0])
    return outputs[-1], outputs, states


def _swapped(x: Tensor, axis: int) -> Tensor:
    """Move time from this axis to the first one, or back."""
    return array.transpose(x, perm=(1, 0, *range(2, x.ndim))) if axis else x


def _chosen(valid: Tensor, new: Any, old: Any) -> Tensor:
    """The new values in those rows of a batch where the mask is true."""
    new, old = convert_to_tensor(new), convert_to_tensor(old)
    rows = tuple(valid.array.shape)
    rank = len(new.array.shape)
    if len(rows) > rank:  # [batch, 1] for a result without features
        return elementwise.where(array.reshape(valid, shape=rows[:rank]), new, old)
    return elementwise.where(array.reshape(valid, shape=(*rows, *(1,) * (rank - len(rows)))), new, old)


# Keras' layers then run their own step functions through `rnn`.
def lstm(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no LSTM kernel: Keras' implementation is used.")


def gru(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no GRU kernel: Keras' implementation is used.")


def bidirectional_lstm(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no LSTM kernel: Keras' implementation is used.")


def bidirectional_gru(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no GRU kernel: Keras' implementation is used.")


def cudnn_ok(*args: Any, **kwargs: Any) -> bool:
    return False
