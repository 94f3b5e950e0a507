"""What `tf.random` is asked, of TensorFlow (to store the answers) and of gradtape: the numbers are the same.

`draws` are calls that need nothing but their arguments: the tests also make them in a compiled function. `cases` has
these, and whatever depends on what was drawn before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FLOATS = ("float16", "bfloat16", "float32", "float64")
SEEDS = ([1, 2], [-3, 2**31 - 1], [0, 0], [2**40, -(2**50)])


def draws(tf: Any) -> dict[str, Callable[[], list[Any]]]:
    """Name -> a function without arguments that gives the tensors of stateless functions."""
    r = tf.random
    found: dict[str, Callable[[], list[Any]]] = {}

    def case(name: str) -> Callable[[Callable[[], list[Any]]], None]:
        def add(function: Callable[[], list[Any]]) -> None:
            found[name] = function

        return add

    def typed(value: Any, dtype: str) -> Any:
        return tf.constant(value, dtype)

    for seed in SEEDS:
        for dtype in FLOATS:
            case(f"uniform_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [
                    r.stateless_uniform([7], s, dtype=d),
                    r.stateless_uniform([2, 3], s, -1.0, 3.0, dtype=d),
                ]
            )
            case(f"normal_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [
                    r.stateless_normal([3, 3], s, dtype=d),
                    r.stateless_normal([5], s, 1.0, 2.0, dtype=d),
                ]
            )
            case(f"truncated_normal_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [
                    r.stateless_truncated_normal([61], s, dtype=d),
                    r.stateless_truncated_normal([2, 3], s, 5.0, 0.5, dtype=d),
                ]
            )
        for dtype in ("float16", "float32", "float64"):
            case(f"gamma_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [
                    r.stateless_gamma([40, 5], s, typed([0.25, 0.9, 1.0, 3.5, 60.0], d), dtype=d),
                    r.stateless_gamma([9], s, 2.0, 3.0, dtype=d),
                    r.stateless_gamma([3, 2, 2], s, typed([[0.5], [2.0]], d), typed([1.0, 10.0], d), dtype=d),
                ]
            )
            case(f"parameterized_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [
                    r.stateless_parameterized_truncated_normal([30], s, *(typed(v, d) for v in p))
                    for p in (
                        (0.0, 1.0, -2.0, 2.0),
                        (1.0, 2.0, -1.0, 9.0),
                        (0.0, 1.0, 0.5, 0.75),
                        (0.0, 1.0, 3.0, 8.0),
                        (5.0, 0.5, -3.0, 4.0),
                        ([0.0, 1.0, 2.0] * 10, [1.0] * 30, [-1.0, 0.0, 4.0] * 10, [2.0, 3.0, 5.0] * 10),
                    )
                ]
            )
            for out in ("int32", "int64", "float16", "float32", "float64"):
                case(f"poisson_{dtype}_{out}_{seed}")(
                    lambda s=seed, d=dtype, o=out: [
                        r.stateless_poisson([20, 4], s, typed([0.0, 0.7, 6.0, 9.75], d), o),
                        r.stateless_poisson([20, 3], s, typed([10.0, 33.0, 400.0], d), o),
                    ]
                )
                case(f"binomial_{dtype}_{out}_{seed}")(
                    lambda s=seed, d=dtype, o=out: [
                        r.stateless_binomial([20, 4], s, typed([0.0, 5.0, 20.0, 50.0], d), typed(0.25, d), o),
                        r.stateless_binomial([20, 3], s, typed(100.0, d), typed([0.05, 0.5, 0.75], d), o),
                        r.stateless_binomial([5, 4], s, typed(20.0, d), typed([0.0, 1.0, 0.9, 0.3], d), o),
                    ]
                )
        for dtype in ("int32", "int64"):
            case(f"poisson_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [r.stateless_poisson([20, 3], s, typed([1, 8, 90], d), "int64")]
            )
            case(f"uniform_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [
                    r.stateless_uniform([9], s, 3, 17, dtype=d),
                    r.stateless_uniform([9], s, -5, 1000, dtype=d),
                    r.stateless_uniform([9], s, -(2**31), 2**31 - 1, dtype=d),
                    r.stateless_uniform([9], s, 0, 3 * 2**29, dtype=d),
                    r.split(s, 3),
                    r.fold_in(s, typed(9, d)),
                ]
            )
        case(f"uniform_wide_{seed}")(lambda s=seed: [r.stateless_uniform([9], s, -(2**62), 2**62 - 5, dtype="int64")])
        for dtype in ("int32", "int64", "uint32", "uint64"):
            case(f"uniform_full_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [r.stateless_uniform([5], s, None, None, dtype=d)]
            )
        for dtype in FLOATS:
            case(f"categorical_{dtype}_{seed}")(
                lambda s=seed, d=dtype: [
                    r.stateless_categorical(typed([[0.1, 0.2, 0.7], [3.0, 0.0, -1.0]], d), 7, s),
                    r.stateless_categorical(typed([[0.0, 1.0, float("-inf")]], d), 9, s, dtype="int32"),
                ]
            )
        case(f"shuffle_{seed}")(
            lambda s=seed: (
                [r.experimental.stateless_shuffle(tf.range(n) if n else tf.zeros([0]), s) for n in (0, 1, 2, 9, 300)]
                + [r.experimental.stateless_shuffle(tf.reshape(tf.range(14), [7, 2]), s)]
            )
        )
        case(f"index_shuffle_{seed}")(
            lambda s=seed: [
                r.experimental.index_shuffle(tf.range(20), s, 19),
                r.experimental.index_shuffle(3, s, 9),
                r.experimental.index_shuffle(tf.constant([5, 99_999, 7], "int64"), s, tf.constant(100_000, "int64")),
                r.experimental.index_shuffle(tf.constant(2**35, "int64"), s, tf.constant(2**40 + 5, "int64")),
                r.experimental.index_shuffle(tf.constant([0, 65536, 65535]), s, 65536),
                r.experimental.index_shuffle(0, s, 0),
            ]
        )
        for algorithm in ("philox", "auto_select", 1, 3, None):
            case(f"algorithm_{algorithm}_{seed}")(
                lambda s=seed, a=algorithm: [
                    r.stateless_uniform([3], s, alg=a),
                    r.stateless_normal([3], s, alg=a),
                    r.stateless_truncated_normal([3], s, alg=a),
                    r.split(s, 2, alg=a),
                    r.fold_in(s, 2, alg=a),
                    r.experimental.stateless_shuffle(tf.range(9), s, alg=a),
                ]
            )
    return found


def stateful(tf: Any) -> dict[str, Callable[..., Any]]:
    """Name -> a call of a stateful op that takes a seed."""
    r = tf.random
    found: dict[str, Callable[..., Any]] = {}
    for dtype in FLOATS:
        found[f"uniform_{dtype}"] = lambda d=dtype, **k: r.uniform([5], -1.0, 2.0, dtype=d, **k)
        found[f"normal_{dtype}"] = lambda d=dtype, **k: r.normal([5], 1.0, 2.0, dtype=d, **k)
        found[f"truncated_normal_{dtype}"] = lambda d=dtype, **k: r.truncated_normal([25], dtype=d, **k)
        found[f"categorical_{dtype}"] = lambda d=dtype, **k: r.categorical(
            tf.constant([[0.1, 0.2, 0.7], [3.0, 0.0, 0.0]], d), 5, **k
        )
    for dtype in ("float16", "float32", "float64"):
        found[f"gamma_{dtype}"] = lambda d=dtype, **k: r.gamma([9], tf.constant([0.3, 1.0, 2.5], d), 2.0, dtype=d, **k)
        found[f"poisson_{dtype}"] = lambda d=dtype, **k: r.poisson([9], tf.constant([0.5, 7.0, 30.0], d), dtype=d, **k)
    for dtype in ("int32", "int64"):
        found[f"uniform_{dtype}"] = lambda d=dtype, **k: r.uniform([5], -3, 100, dtype=d, **k)
        found[f"poisson_{dtype}"] = lambda d=dtype, **k: r.poisson([9], [0.5, 7.0, 30.0], dtype=d, **k)
        found[f"shuffle_{dtype}"] = lambda d=dtype, **k: r.shuffle(tf.range(12, dtype=d), **k)
    found["shuffle_matrix"] = lambda **k: r.shuffle(tf.reshape(tf.range(12), [6, 2]), **k)
    found["shuffle_one"] = lambda **k: r.shuffle(tf.range(1), **k)
    found["uniform_uneven"] = lambda **k: r.uniform([5], 0, 3 * 2**29, dtype="int32", **k)
    found["uniform_long_shape"] = lambda **k: r.uniform(tf.constant([3], "int64"), **k)
    found["uniform_nothing"] = lambda **k: r.uniform([0], **k)
    found["log_uniform"] = lambda **k: r.log_uniform_candidate_sampler([[1, 2]], 2, 6, True, 20, **k)[0]
    found["log_uniform_repeated"] = lambda **k: r.log_uniform_candidate_sampler([[1, 2]], 2, 6, False, 20, **k)[0]
    found["uniform_candidates"] = lambda **k: r.uniform_candidate_sampler([[1, 2]], 2, 6, True, 20, **k)[0]
    found["unigrams"] = lambda **k: r.fixed_unigram_candidate_sampler(
        [[1, 2]], 2, 6, False, 4, unigrams=[1.0, 2.0, 3.0, 4.0], **k
    )[0]
    return found


def programs(tf: Any) -> dict[str, Callable[[], list[Any]]]:
    """Name -> a program with functions in which ops with and without seeds draw."""

    def number(seed: Any = None) -> Any:
        return tf.random.uniform([], seed=seed)

    def retraced() -> list[Any]:
        f = tf.function(lambda x: tf.random.uniform(tf.shape(x), seed=3))
        return [f(tf.zeros([n])) for n in (1, 2, 1, 3)]

    def unknown_shape() -> list[Any]:
        spec = tf.TensorSpec([None], tf.float32)
        found = []
        for seed in (42, None):
            f = tf.function(lambda x, seed=seed: tf.random.normal(tf.shape(x), seed=seed))
            concrete = f.get_concrete_function(spec)
            found += [concrete(tf.zeros([n])) for n in (1, 3, 1)]
        generator = tf.random.Generator.from_seed(3)
        f = tf.function(lambda x: generator.uniform(tf.shape(x)), input_signature=[spec])
        return [*found, number(42), f(tf.zeros([2])), f(tf.zeros([3])), generator.state.numpy()]

    def loop() -> list[Any]:
        def body(i: Any, total: Any) -> Any:
            return i + 1, total * 2 + number(3) + number()

        @tf.function
        def f(n: Any) -> Any:
            start = tf.constant(0), tf.constant(0.0)
            return *tf.while_loop(lambda i, total: i < n, body, start, parallel_iterations=1), number()

        return [part for n in (3, 2, 3) for part in f(tf.constant(n))]

    def mapped() -> list[Any]:
        """In order of size: TensorFlow runs several turns at once."""
        x = tf.zeros([3])
        f = tf.function(lambda: tf.sort(tf.map_fn(lambda row: row + number(3), x)))
        g = tf.function(lambda: tf.sort(tf.scan(lambda _, row: row + number(), x, initializer=0.0)))
        h = tf.function(lambda: tf.sort(tf.vectorized_map(lambda row: row + tf.random.gamma([], 2.0, seed=3), x)))
        return [f(), g(), h(), f(), g(), h()]

    def branches() -> list[Any]:
        @tf.function
        def f(n: Any) -> Any:
            x = number()
            if n > 0:  # noqa: SIM108
                y = number()
            else:
                y = number() + 10
            return x, y, number()

        return [part for n in (3, -3, 3, -1) for part in f(tf.constant(n))]

    def nested() -> list[Any]:
        inner = tf.function(lambda: (number(), number(4)))
        outer = tf.function(lambda: (inner(), inner(), number(), number(4)))
        return tf.nest.flatten([outer(), outer(), inner(), inner()])

    def rows() -> list[Any]:
        def draw(x: Any) -> Any:
            return x + tf.random.uniform([2], seed=8) + tf.random.normal([2])

        f = tf.function(lambda: tf.vectorized_map(draw, tf.zeros([3])))
        return [f(), f(), tf.vectorized_map(draw, tf.zeros([3])), tf.vectorized_map(draw, tf.zeros([3]))]

    def datasets() -> list[Any]:
        dataset = tf.data.Dataset.range(3).map(lambda x: number() + number(3)).repeat(2)
        kept = tf.data.Dataset.range(9).filter(lambda x: number(1) > 0.5)
        return [*dataset, *dataset, number(), tf.stack(list(kept))]

    def two_functions() -> list[Any]:
        def draw() -> Any:
            return number(), number(5)

        f, g = tf.function(draw), tf.function(draw)
        found = [f(), f(), g(), number(), number(5)]
        tf.random.set_seed(2)
        return tf.nest.flatten([*found, f(), number(), number(5)])

    return {
        "retraced": retraced,
        "unknown_shape": unknown_shape,
        "loop": loop,
        "mapped": mapped,
        "branches": branches,
        "nested": nested,
        "rows": rows,
        "datasets": datasets,
        "two_functions": two_functions,
    }


def cases(tf: Any) -> dict[str, Callable[[], list[Any]]]:
    """Name -> a function without arguments that gives tensors."""
    r = tf.random
    found = {f"stateless_{name}": function for name, function in draws(tf).items()}

    def sequence(call: Callable[..., Any], global_seed: Any, seed: Any) -> list[Any]:
        """Three calls, and some again after set_seed."""
        r.set_seed(global_seed)
        eager = [call(seed=seed) for _ in range(3)]
        r.set_seed(global_seed)
        return [*eager, call(seed=seed), r.uniform([2], seed=77), call(seed=seed)]

    for name, call in stateful(tf).items():
        for global_seed, seed in ((None, 42), (7, None), (7, 42), (0, 0)):
            found[f"stateful_{name}_{global_seed}_{seed}"] = lambda c=call, g=global_seed, s=seed: sequence(c, g, s)

    def in_function(global_seed: Any, seed: Any) -> list[Any]:
        """All in one function, of which each op has a stream of its own."""
        r.set_seed(global_seed)
        calls = list(stateful(tf).values())
        function = tf.function(lambda: [call(seed=seed) for call in calls])
        first = [*function(), *function()]
        r.set_seed(global_seed)
        return [*first, *function(), *(call(seed=seed) for call in calls)]

    for global_seed, seed in ((None, 42), (7, None)):
        found[f"function_{global_seed}_{seed}"] = lambda g=global_seed, s=seed: in_function(g, s)

    def mixed(global_seed: Any) -> list[Any]:
        """All kinds of ops after each other: each takes the next seed."""
        r.set_seed(global_seed)
        calls = list(stateful(tf).values())
        return [call() for call in calls] + [call(seed=3) for call in calls] + [call(seed=3) for call in calls]

    for global_seed in (0, 1, 42, 1234567890123, -5, 2.5, -1.5):
        found[f"mixed_{global_seed}"] = lambda g=global_seed: mixed(g)
    for seed in (2.0, 2.7, -1.5, -1, 2**31 - 1, 2**40, True):
        found[f"seed_{seed}"] = lambda s=seed: sequence(lambda **k: r.uniform([3], **k), 5, s)

    for name, program in programs(tf).items():

        def of_program(program: Callable[[], list[Any]] = program) -> list[Any]:
            r.set_seed(1)
            return program()

        found[f"program_{name}"] = of_program

    def generator(make: Callable[[], Any]) -> list[Any]:
        g = make()
        found = [g.state.numpy()]
        for dtype in FLOATS:
            found += [g.uniform([3], dtype=dtype), g.normal([5], dtype=dtype), g.truncated_normal([9], dtype=dtype)]
            found += [g.uniform([2], 1.0, 2.0, dtype=dtype), g.normal([2, 2], 3.0, 0.5, dtype=dtype), g.state.numpy()]
        for dtype in ("int32", "int64", "uint32", "uint64"):
            found += [g.uniform_full_int([3], dtype), g.uniform([2], None, None, dtype=dtype)]
        for dtype in ("int32", "int64"):
            found += [g.uniform([3], 1, 9, dtype=dtype), g.state.numpy()]
        for dtype in ("int32", "int64", "float32", "float64"):
            found += [g.binomial([9, 2], tf.constant([10.0, 90.0]), tf.constant([0.3, 0.6]), dtype=dtype)]
            found += [g.state.numpy()]
        found += [g.make_seeds(2), g.make_seeds(), *(s.normal([2]) for s in g.split(2)), g.state.numpy()]
        found += [g.skip(3), g.state.numpy(), g.key, g.algorithm, g.uniform([0]), g.normal([]), g.state.numpy()]
        g.reset_from_seed([5, 6])
        found += [g.state.numpy(), g.uniform([2])]
        g.reset_from_key_counter(3, [4, 5])
        found += [g.uniform([2]), g.state.numpy()]
        g.reset([2**62, -7, 9])
        return [*found, g.uniform([2]), g.state.numpy()]

    makers = {
        "seed": lambda: r.Generator.from_seed(7),
        "large_seed": lambda: r.Generator.from_seed(2**70 + 3),
        "negative_seed": lambda: r.Generator.from_seed(-9),
        "float_seed": lambda: r.Generator.from_seed(2.75),
        "list_seed": lambda: r.Generator.from_seed([4, 5]),
        "state": lambda: r.Generator.from_state([1, 2, 3], "philox"),
        "last_state": lambda: r.Generator.from_state([-1, -1, 3], "philox"),
        "key_counter": lambda: r.Generator.from_key_counter(3, [4, 5], 1),
    }
    for name, make in makers.items():
        found[f"generator_{name}"] = lambda m=make: generator(m)
    found["rng_states"] = lambda: [
        r.create_rng_state(seed, "philox")
        for seed in (-9, 2**70 + 3, 2.75, -2.75, [1], [1, 2], [1, 2, 3], [1, 2, 3, 4])
    ]
    return {name: lambda f=function: [_storable(tf, x) for x in f()] for name, function in found.items()}


def _storable(tf: Any, x: Any) -> Any:
    """NumPy files know no bfloat16: its numbers are float32 numbers, too."""
    return tf.cast(x, "float32") if getattr(x, "dtype", None) == "bfloat16" else x
