"""What `tf.random` is asked, of TensorFlow (to store the answers) and of gradtape: the streams are the same."""

from __future__ import annotations

from typing import Any


def cases(tf: Any) -> dict[str, Any]:
    """Name -> a function without arguments that gives tensors."""
    r = tf.random
    found: dict[str, Any] = {}
    for seed in ([1, 2], [-3, 2**31 - 1], [0, 0]):
        for dtype in ("float16", "float32", "float64"):
            found[f"stateless_{seed}_{dtype}"] = lambda seed=seed, dtype=dtype: [
                r.stateless_uniform([7], seed, dtype=dtype),
                r.stateless_normal([3, 3], seed, dtype=dtype),
                r.stateless_uniform([2, 3], seed, -1.0, 3.0, dtype=dtype),
            ]
        found[f"stateless_int_{seed}"] = lambda seed=seed: [
            r.stateless_uniform([9], seed, 3, 17, dtype="int32"),
            r.stateless_uniform([9], seed, -5, 1000, dtype="int64"),
            r.stateless_uniform([5], seed, None, None, dtype="int32"),
            r.stateless_uniform([5], seed, None, None, dtype="uint64"),
            r.split(seed, 3),
            r.fold_in(seed, 9),
        ]

    def with_seed(seed: int, *calls: Any) -> Any:
        def run() -> list[Any]:
            r.set_seed(seed)
            return [call() for call in calls]

        return run

    calls = (
        lambda: r.normal([3]),
        lambda: r.uniform([3]),
        lambda: r.normal([3]),
        lambda: r.uniform([4], 0, 10, dtype="int32"),
        lambda: r.normal([2], 1.0, 2.0, dtype="float64"),
        lambda: r.uniform([5], seed=3),
        lambda: r.uniform([5], seed=3),
        lambda: r.normal([2, 2], seed=3),
        lambda: r.uniform([4], 0, 100, dtype="int64", seed=5),
        lambda: r.categorical([[0.1, 0.2, 0.7], [3.0, 0.0, 0.0]], 5),
    )
    for seed in (0, 1, 42, 1234567890123):
        found[f"set_seed_{seed}"] = with_seed(seed, *calls)

    def generator() -> list[Any]:
        g = r.Generator.from_seed(7)
        found = [g.uniform([3]), g.normal([5]), g.state.numpy(), g.uniform([2], 1, 9, dtype="int32"), g.make_seeds(2)]
        found += [s.normal([2]) for s in g.split(2)]
        found += [
            g.uniform_full_int([3]),
            g.normal([3], dtype="float64"),
            g.skip(3),
            g.state.numpy(),
            g.key,
            g.algorithm,
        ]
        g.reset_from_seed([5, 6])
        found += [g.state.numpy(), g.uniform([2])]
        g.reset_from_key_counter(3, [4, 5])
        return [*found, g.uniform([2]), r.create_rng_state(-9, "philox"), r.create_rng_state(2**70 + 3, 1)]

    found["generator"] = generator
    return found
