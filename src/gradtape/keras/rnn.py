"""Recurrent networks, step by step: tapes record every step as it runs."""

from __future__ import annotations

from typing import Any, NoReturn

from keras.src import tree

from gradtape.api import array as arrays
from gradtape.keras.core import convert_to_tensor, unstack
from gradtape.ops import array, math as elementwise
from gradtape.tensor import Tensor


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

    A masked step leaves the states as they were; its output is the one before it, or zeros.
    """
    axis = 0 if time_major else 1
    columns = [unstack(leaf, axis=axis) for leaf in tree.flatten(inputs)]
    steps = len(columns[0])
    if not steps:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    masks = None if mask is None else unstack(convert_to_tensor(mask, "bool"), axis=axis)
    constants = tuple(constants or ())
    states, output, outputs = tuple(initial_states), None, []
    for t in reversed(range(steps)) if go_backwards else range(steps):
        given = tree.pack_sequence_as(inputs, [column[t] for column in columns])
        new_output, new_states = step_function(given, states + constants)
        new_states = tuple(new_states)
        if masks is None:
            output, states = new_output, new_states
        else:
            valid = masks[t]
            before = arrays.zeros_like(new_output) if output is None or zero_output_for_mask else output
            output = _chosen(valid, new_output, before)
            states = tree.map_structure(lambda new, old, valid=valid: _chosen(valid, new, old), new_states, states)
        if return_all_outputs:
            outputs.append(output)
    all_outputs = arrays.stack(outputs if return_all_outputs else [output], axis)
    return output, all_outputs, states


def _chosen(valid: Tensor, new: Any, old: Any) -> Tensor:
    """The new values in the rows of a batch where the mask is true."""
    new, old = convert_to_tensor(new), convert_to_tensor(old)
    rows = tuple(valid.array.shape)
    rank = len(new.array.shape)
    if len(rows) > rank:  # [batch, 1] for a result without features
        return elementwise.where(array.reshape(valid, shape=rows[:rank]), new, old)
    return elementwise.where(array.reshape(valid, shape=(*rows, *(1,) * (rank - len(rows)))), new, old)


# Keras' layers then run their own step functions through `rnn`.
def lstm(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no LSTM of its own: Keras' is used.")


def gru(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no GRU of its own: Keras' is used.")


def bidirectional_lstm(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no LSTM of its own: Keras' is used.")


def bidirectional_gru(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("gradtape has no GRU of its own: Keras' is used.")


def cudnn_ok(*args: Any, **kwargs: Any) -> bool:
    return False
