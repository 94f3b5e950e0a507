"""Raw ops of recurrent networks: cells, and whole sequences of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.tf import array, math
from gradtape._src.tf.arguments import static
from gradtape._src.tf.nn import relu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradtape._src.tensor import Tensor

    Step = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    """A step: the next states h and c, from an input and the states."""


# -- cells -----------------------------------------------------------------------------------------------------------
def _gru_cell(x: Any, h_prev: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> tuple[Tensor, ...]:
    r, u = array.split(math.sigmoid(array.concat([x, h_prev], 1) @ w_ru + b_ru), 2, axis=1)
    c = math.tanh(array.concat([x, r * h_prev], 1) @ w_c + b_c)
    return r, u, c, u * h_prev + (1 - u) * c


def _lstm_cell(
    x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    forget_bias: float, cell_clip: float, use_peephole: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    gates = array.concat([x, h_prev], 1) @ w + b
    return _lstm_outputs(array.split(gates, 4, axis=1), cs_prev, (wci, wcf, wco), forget_bias, cell_clip, use_peephole)


def _lstm_outputs(
    gates: Sequence[Any], cs_prev: Any, peepholes: Sequence[Any], forget_bias: float, cell_clip: float,
    use_peephole: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """i, cs, f, o, ci, co and h of a cell, from the sums of its gates in the order i, ci, f, o."""
    i, ci, f, o = gates
    wci, wcf, wco = peepholes
    i = math.sigmoid(i + wci * cs_prev if use_peephole else i)
    f = math.sigmoid((f + wcf * cs_prev if use_peephole else f) + forget_bias)
    ci = math.tanh(ci)
    cs = ci * i + cs_prev * f
    if cell_clip > 0:
        cs = math.maximum(math.minimum(cs, cell_clip), -cell_clip)
    o = math.sigmoid(o + wco * cs if use_peephole else o)
    co = math.tanh(cs)
    return i, cs, f, o, ci, co, co * o


# -- sequences -------------------------------------------------------------------------------------------------------
def _block_lstm(
    seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    forget_bias: float, cell_clip: float, use_peephole: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """All steps of an LSTM; the rows of the outputs after `seq_len_max` are zeros."""
    return _lstm_steps(
        seq_len_max, x, cs_prev, h_prev, w, (wci, wcf, wco), b, (0, 1, 2, 3), forget_bias, cell_clip, use_peephole
    )


def _block_lstm_v2(
    seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    cell_clip: float, use_peephole: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The same with the gates in the order i, f, ci, o."""
    return _lstm_steps(
        seq_len_max, x, cs_prev, h_prev, w, (wci, wcf, wco), b, (0, 2, 1, 3), 0.0, cell_clip, use_peephole
    )


def _lstm_steps(
    seq_len_max: Any, x: Any, cs: Any, h: Any, w: Any, peepholes: Sequence[Any], b: Any, order: Sequence[int],
    forget_bias: float, cell_clip: float, use_peephole: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    steps = min(int(static(seq_len_max)), x.shape[0])
    found: list[tuple[Tensor, ...]] = []
    for step in range(steps):
        sums = array.split(array.concat([x[step], h], 1) @ w + b, 4, axis=1)
        outputs = _lstm_outputs([sums[k] for k in order], cs, peepholes, forget_bias, cell_clip, use_peephole)
        cs, h = outputs[1], outputs[-1]
        found.append(outputs)
    rest = array.zeros_like(h)
    return tuple([array.stack([*[each[k] for each in found], *[rest] * (x.shape[0] - steps)]) for k in range(7)])


_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def _cudnn_rnn(
    input: Any, input_h: Any, input_c: Any, params: Any,
    rnn_mode: str, direction: str, seed: int, seed2: int, is_training: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The recurrent networks of cuDNN, by their formulas: stacked layers, in one or both directions.

    `params` contains the matrices of all layers, for the input and for the state, and then their biases.
    """
    both = 2 if direction == "bidirectional" else 1
    units, layers = input_h.shape[2], input_h.shape[0] // both
    cells = [
        _cudnn_cell(rnn_mode, *weights)
        for weights in _cudnn_weights(params, _GATES[rnn_mode] * units, units, input.shape[2], layers, both)
    ]
    sequence, last_h, last_c = array.unstack(input), [], []
    for layer in range(layers):
        outputs = []
        for side in range(both):
            number = layer * both + side
            h, c = input_h[number], input_c[number] if rnn_mode == "lstm" else input_h[number]
            found = []
            for x in sequence[::-1] if side else sequence:
                h, c = cells[number](x, h, c)
                found.append(h)
            outputs.append(found[::-1] if side else found)
            last_h.append(h)
            last_c.append(c)
        sequence = [array.concat(parts, -1) for parts in zip(*outputs, strict=True)]
    states = array.stack(last_c) if rnn_mode == "lstm" else array.zeros_like(input_c)
    return array.stack(sequence), array.stack(last_h), states, array.zeros([0], input.dtype)


def _cudnn_weights(params: Any, rows: int, units: int, inputs: int, layers: int, both: int) -> list[list[Tensor]]:
    """For each layer and direction: the matrices for the input and for the state, and the bias of each."""
    columns = [inputs if layer == 0 else units * both for layer in range(layers) for _ in range(both)]
    shapes: list[tuple[int, ...]] = [shape for n in columns for shape in ((rows, n), (rows, units))]
    shapes += [(rows,)] * (2 * len(columns))
    found, start = [], 0
    for shape in shapes:
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        found.append(array.reshape(params[start : start + size], shape))
        start += size
    middle = 2 * len(columns)
    return [found[i : i + 2] + found[middle + i : middle + i + 2] for i in range(0, middle, 2)]


def _cudnn_cell(rnn_mode: str, w: Tensor, r: Tensor, b_w: Tensor, b_r: Tensor) -> Step:
    def sums(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return x @ array.transpose(w) + b_w, h @ array.transpose(r) + b_r

    def simple(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        a, b = sums(x, h)
        new: Tensor = relu(a + b) if rnn_mode == "rnn_relu" else math.tanh(a + b)
        return new, c

    def lstm(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        a, b = sums(x, h)
        i, f, new, o = array.split(a + b, 4, axis=1)
        c = math.sigmoid(f) * c + math.sigmoid(i) * math.tanh(new)
        return math.sigmoid(o) * math.tanh(c), c

    def gru(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        a, b = (array.split(each, 3, axis=1) for each in sums(x, h))
        reset, update = math.sigmoid(a[0] + b[0]), math.sigmoid(a[1] + b[1])
        return (1 - update) * math.tanh(a[2] + reset * b[2]) + update * h, c

    return {"lstm": lstm, "gru": gru}.get(rnn_mode, simple)


OPS: dict[str, Callable[..., Any]] = {
    "BlockLSTM": _block_lstm,
    "BlockLSTMV2": _block_lstm_v2,
    "CudnnRNN": _cudnn_rnn,
    "GRUBlockCell": _gru_cell,
    "LSTMBlockCell": _lstm_cell,
}
