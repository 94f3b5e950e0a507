"""Update parts of a variable's value: see arrays/numpy/state.py. XLA updates donated memory in place."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from gradtape._src.arrays.half import in_float32
from gradtape._src.arrays.numpy.state import filled_index

Array = Any

_CHANGES = {"maximum": "max", "minimum": "min"}


@in_float32
def update_at(x: Array, indices: Array, updates: Array, *, how: str, batch_dims: int = 0) -> Array:
    if 0 in x.shape:  # a check of the indices refuses them
        return x
    lead = jnp.ix_(*(jnp.arange(n) for n in indices.shape[:batch_dims]))
    extra = indices.ndim - 1 - batch_dims
    grids = tuple(g.reshape(g.shape + (1,) * extra) for g in lead)
    place = jnp.asarray(x).at[(*grids, *jnp.moveaxis(jnp.asarray(indices), -1, 0))]
    return getattr(place, _CHANGES.get(how, how))(updates)


def set_slice(x: Array, part: Array, *positions: Array, index: tuple[Any, ...]) -> Array:
    return jnp.asarray(x).at[filled_index(index, positions)].set(part)
