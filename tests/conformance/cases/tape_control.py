"""GradientTape: reset, stop_recording, watched_variables, nesting, lifetimes, threads."""

import threading

from conformance.runner import raises


def case_reset_drops_earlier_ops(tf, np):
    kept, lost = tf.Variable(1.5), tf.Variable([4.0, 5.0])
    with tf.GradientTape() as t:
        before = tf.reduce_sum(tf.sqrt(lost))
        t.reset()
        total = before * kept**2
    return [total, t.gradient(total, [kept, lost])]


def case_reset_forgets_explicit_watches(tf, np):
    x, v = tf.constant(2.0), tf.Variable(5.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        t.reset()
        a = x * x
        b = x * v
    return [t.gradient(a, x), t.gradient(b, [x, v])]


def case_late_watch_counts_in_ops_already_recorded(tf, np):
    x, v = tf.constant(2.0), tf.Variable(5.0)
    with tf.GradientTape(persistent=True) as t:
        recorded = x * v  # on the tape because of v
        unrecorded = x * x
        t.watch(x)
    return [t.gradient(recorded, [x, v]), t.gradient(unrecorded, x)]


def case_reset_clears_watched_variables(tf, np):
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    with tf.GradientTape() as t:
        _ = v * 2.0
        before = len(t.watched_variables())
        t.reset()
        between = len(t.watched_variables())
        _ = w * 2.0
    after = t.watched_variables()
    return [before, between, len(after), after[0] is w]


def case_reset_outside_context_raises(tf, np):
    v = tf.Variable(1.0)
    with tf.GradientTape() as t:
        y = v * v
    return [raises(lambda: t.reset()), raises(lambda: tf.GradientTape().reset()), t.gradient(y, v)]


def case_stop_recording_hides_ops(tf, np):
    seen, unseen = tf.Variable(0.5), tf.Variable(-3.0)
    with tf.GradientTape() as t:
        a = tf.exp(seen)
        with t.stop_recording():
            b = unseen**3 * a
        c = a * 2.0 - b
    return [c, t.gradient(c, {"s": seen, "u": unseen}), len(t.watched_variables())]


def case_stop_recording_resumes(tf, np):
    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        a = x * x
        with t.stop_recording():
            b = a * x
            c = b * 3.0
        d = a * c + x
    return t.gradient(d, x)


def case_gradient_inside_stop_recording(tf, np):
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as t:
        loss = tf.reduce_sum(x**3)
        with t.stop_recording():
            g = t.gradient(loss, x)
        again = loss * 2.0
    return [g, t.gradient(again, x), t.gradient(g, x)]


def case_stop_recording_outside_context_raises(tf, np):
    v = tf.Variable(1.0)
    with tf.GradientTape() as t:
        _ = v * v

    def enter():
        with t.stop_recording():
            pass

    return raises(enter)


def case_stop_recording_only_its_own_tape(tf, np):
    x = tf.constant(3.0)
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        with inner.stop_recording():
            y = x * x
        z = y * 2.0 + x
    return [outer.gradient(z, x), inner.gradient(z, x)]


def case_exception_inside_stop_recording_restores(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t:
        try:
            with t.stop_recording():
                raise KeyError("stop")
        except KeyError:
            pass
        y = x * x
    return t.gradient(y, x)


def case_watched_variables_order_and_identity(tf, np):
    a, b, c = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0)
    frozen = tf.Variable(4.0, trainable=False)
    with tf.GradientTape() as t:
        _ = b * frozen
        _ = a + b
        _ = b + c
    w = t.watched_variables()
    return [isinstance(w, tuple), len(w), [("a", "b", "c")[[u is k for k in (a, b, c)].index(True)] for u in w]]


def case_watched_variables_after_gradient_and_constants(tf, np):
    v, k = tf.Variable(1.0, name="v"), tf.constant(1.0)
    with tf.GradientTape() as t:
        t.watch(k)
        y = v * k
    before = len(t.watched_variables())
    _ = t.gradient(y, v)
    return [before, len(t.watched_variables()), tf.GradientTape().watched_variables()]


def case_watch_accessed_variables_false(tf, np):
    quiet, loud = tf.Variable([1.0, 2.0]), tf.Variable([0.25, -4.0])
    with tf.GradientTape(watch_accessed_variables=False) as t:
        t.watch(loud)
        y = tf.cos(quiet) * tf.nn.softplus(loud)
    w = t.watched_variables()
    return [t.gradient(y, {"q": quiet, "l": loud}), len(w), w[0] is loud]


def case_non_trainable_variable(tf, np):
    a = tf.Variable(3.0)
    b = tf.Variable(3.0, trainable=False)
    with tf.GradientTape(persistent=True) as t:
        y = a**2 + b**2
        t.watch(b)
        z = a * b
    return [t.gradient(y, [a, b]), t.gradient(z, [a, b]), len(t.watched_variables())]


def case_two_tapes_side_by_side(tf, np):
    p, q = tf.constant([1.0, 2.0]), tf.constant(0.3)
    with tf.GradientTape() as left, tf.GradientTape() as right:
        left.watch(p)
        right.watch(q)
        y = tf.tanh(p * 0.5) / (q + 1.0)
    return [left.gradient(y, [p, q]), right.gradient(y, [p, q])]


def case_gradient_inside_plain_context(tf, np):
    v = tf.Variable(2.0)
    with tf.GradientTape() as t:
        y = v * v
        g = t.gradient(y, v)
        z = v * 3.0
        second = raises(lambda: t.gradient(z, v))
    return [g, second]


def case_gradient_inside_persistent_context(tf, np):
    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = x**4
        g = t.gradient(y, x)
        gg = t.gradient(g, x)
    return [g, gg, t.gradient(gg, x), t.gradient(y, x)]


def case_reentering_continues_the_record(tf, np):
    v = tf.Variable(2.0)
    t = tf.GradientTape()
    with t:
        y = v * v
    _ = v * 100.0
    with t:
        z = y * v
    return t.gradient(z, v)


def case_entering_an_active_tape_raises(tf, np):
    v = tf.Variable(2.0)

    def nested():
        with tf.GradientTape() as t:
            _ = v * v
            with t:
                pass

    return raises(nested)


def case_reentering_after_gradient_starts_anew(tf, np):
    v, w = tf.Variable(2.0), tf.Variable(5.0)
    t = tf.GradientTape()
    with t:
        y = v * w
    first = t.gradient(y, [v, w])
    with t:
        z = v * 3.0
    return [first, t.gradient(z, [v, w])]


def case_exception_in_block_keeps_the_record(tf, np):
    v = tf.Variable(3.0)
    box = []
    t = tf.GradientTape()
    try:
        with t:
            box.append(v * v)
            raise ValueError("in the middle")
    except ValueError:
        pass
    outside = v * 7.0
    with tf.GradientTape() as other:
        y = v * 5.0
    return [t.gradient(box[0], v), other.gradient(y, v), other is not t, outside]


def case_ops_after_exit_are_not_recorded(tf, np):
    v = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as t:
        y = v * v
    z = y * 2.0
    return [t.gradient(z, v), t.gradient(z, y), t.gradient(y, v)]


def case_tape_in_another_thread_is_separate(tf, np):
    v = tf.Variable(2.0)
    box = {}

    def worker():
        with tf.GradientTape() as inner:
            y = v * v * v
        box["inner"] = inner.gradient(y, v)
        box["foreign"] = v * 10.0

    with tf.GradientTape() as t:
        th = threading.Thread(target=worker)
        th.start()
        th.join()
        z = v * v
    return [box["inner"], t.gradient([z, box["foreign"]], v)]


def case_threads_with_own_tapes_concurrently(tf, np):
    n = 4
    out = [None] * n
    barrier = threading.Barrier(n, timeout=20)

    def worker(i):
        x = tf.constant(float(i + 1))
        with tf.GradientTape() as t:
            t.watch(x)
            barrier.wait()
            y = x
            for _ in range(i + 1):
                y = y * x
            barrier.wait()
        out[i] = t.gradient(y, x)

    threads = [threading.Thread(target=worker, args=(i,)) for i in range(n)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    return out


def case_training_loop_with_assign(tf, np):
    w = tf.Variable([1.0, -1.0])
    losses = []
    for _ in range(4):
        with tf.GradientTape() as t:
            loss = tf.reduce_sum((w - [3.0, 2.0]) ** 2)
        g = t.gradient(loss, w)
        w.assign_sub(0.25 * g)
        losses.append(loss)
    return [losses, w]
