"""tf.raw_ops: keyword-only calls, outputs, wrong calls, gradients through them."""

from conformance.runner import dense, raises, tol


def case_calling_convention(tf, np):
    r = tf.raw_ops
    a, b = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    return [
        r.AddV2(x=a, y=b),
        r.Mul(x=a, y=[2.0, 2.0]),
        r.Sub(x=a, y=b, name="sub"),
        raises(lambda: r.AddV2(a, b)),
        raises(lambda: r.AddV2(x=a)),
        raises(lambda: r.AddV2(x=a, y=b, z=a)),
        raises(lambda: r.NoSuchOp, "AttributeError"),
        raises(lambda: r.AddV2(x=a, y=tf.constant([1, 2])), "TypeError"),
        raises(lambda: r.AddV2(x=a, y=tf.constant([1.0, 2.0, 3.0])), "ValueError"),
    ]


def case_binary_arithmetic(tf, np):
    r = tf.raw_ops
    x, y = tf.constant([7.0, -7.0, 2.5]), tf.constant([2.0, 2.0, -2.0])
    return [
        r.Add(x=x, y=y),
        r.RealDiv(x=x, y=y),
        r.Div(x=x, y=y),
        r.FloorDiv(x=x, y=y),
        r.FloorMod(x=x, y=y),
        r.Maximum(x=x, y=y),
        r.Minimum(x=x, y=y),
        r.Pow(x=tf.abs(x), y=y),
        r.SquaredDifference(x=x, y=y),
        r.DivNoNan(x=x, y=[0.0, 1.0, 2.0]),
        r.Atan2(y=y, x=x),
        r.Less(x=x, y=y),
        r.GreaterEqual(x=x, y=y),
        r.Equal(x=x, y=y),
        r.NotEqual(x=x, y=y),
        r.LogicalAnd(x=[True, True], y=[True, False]),
        r.LogicalNot(x=[True, False]),
        r.TruncateDiv(x=tf.constant([7, -7]), y=2),
        r.AddN(inputs=[x, y, x]),
    ]


def case_unary_arithmetic(tf, np):
    r = tf.raw_ops
    x = tf.constant([0.5, 1.5, 2.0])
    return [
        r.Neg(x=x),
        r.Exp(x=x),
        r.Log(x=x),
        r.Sqrt(x=x),
        r.Rsqrt(x=x),
        r.Square(x=x),
        r.Tanh(x=x),
        r.Sigmoid(x=x),
        r.Reciprocal(x=x),
        r.Floor(x=x),
        r.Rint(x=x),
        r.Round(x=x),
        r.Sign(x=-x),
        r.Abs(x=-x),
        r.Erf(x=x),
        r.Log1p(x=x),
        r.Expm1(x=x),
        r.IsNan(x=x),
        r.Identity(input=x),
        r.StopGradient(input=x),
        r.ZerosLike(x=x),
        r.OnesLike(x=x),
    ]


def case_matrix_products(tf, np):
    r = tf.raw_ops
    a, b = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[5.0], [6.0]])
    c = tf.constant(np.arange(8.0).reshape(2, 2, 2))
    return [
        r.MatMul(a=a, b=b),
        r.MatMul(a=a, b=b, transpose_a=True),
        r.MatMul(a=b, b=b, transpose_b=True),
        r.BatchMatMulV2(x=c, y=c),
        r.BatchMatMulV2(x=c, y=c, adj_x=True),
        r.BatchMatMul(x=c, y=c, adj_y=True),
        r.Einsum(inputs=[a, a], equation="ij,kj->ik"),
        r.Einsum(inputs=[c], equation="bij->bji"),
        raises(lambda: r.MatMul(a=a, b=tf.constant([1.0, 2.0])), "ValueError"),
        raises(lambda: r.Einsum(inputs=[a], equation="ijk->i"), "ValueError"),
    ]


def case_gradient_of_matrix_products(tf, np):
    r = tf.raw_ops
    a, b = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[5.0, 0.5], [6.0, -1.0]])
    out = []
    for f in (
        lambda: r.MatMul(a=a, b=b, transpose_a=True),
        lambda: r.BatchMatMulV2(x=a[None], y=b[None], adj_y=True),
        lambda: r.Einsum(inputs=[a, b], equation="ij,jk->ki"),
        lambda: r.AddV2(x=r.Mul(x=a, y=b), y=b),
    ):
        with tf.GradientTape() as t:
            t.watch([a, b])
            y = f() ** 2
        out.append(t.gradient(y, [a, b]))
    return out


def case_activations(tf, np):
    r = tf.raw_ops
    x = tf.constant([[-1.0, 0.0, 2.0, 7.0]])
    out = [
        r.Relu(features=x),
        r.Relu6(features=x),
        r.Elu(features=x),
        r.Selu(features=x),
        r.LeakyRelu(features=x, alpha=0.1),
        r.Softplus(features=x),
        r.Softsign(features=x),
        r.Softmax(logits=x),
        r.LogSoftmax(logits=x),
    ]
    for f in (
        lambda: r.Relu(features=x),
        lambda: r.LeakyRelu(features=x, alpha=0.1),
        lambda: r.Softmax(logits=x),
        lambda: r.Selu(features=x),
    ):
        with tf.GradientTape() as t:
            t.watch(x)
            y = f() ** 2
        out.append(t.gradient(y, x))
    return out


def case_gradient_ops(tf, np):
    r = tf.raw_ops
    g, x = tf.constant([1.0, 2.0, 3.0]), tf.constant([-1.0, 0.5, 8.0])
    return [
        r.ReluGrad(gradients=g, features=x),
        r.Relu6Grad(gradients=g, features=x),
        r.SigmoidGrad(y=tf.sigmoid(x), dy=g),
        r.TanhGrad(y=tf.tanh(x / 2), dy=g),
        r.SoftplusGrad(gradients=g, features=x),
        r.EluGrad(gradients=g, outputs=tf.nn.elu(x)),
        r.BiasAddGrad(out_backprop=tf.reshape(tf.range(6.0), [2, 3])),
        r.RsqrtGrad(y=g, dy=g),
    ]


def case_losses(tf, np):
    r = tf.raw_ops
    z = tf.constant([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]])
    with tf.GradientTape(persistent=True) as t:
        t.watch(z)
        loss, back = r.SparseSoftmaxCrossEntropyWithLogits(features=z, labels=[2, 0])
        l2, b2 = r.SoftmaxCrossEntropyWithLogits(features=z, labels=[[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
        l3 = r.L2Loss(t=z)
    res = r.SparseSoftmaxCrossEntropyWithLogits(features=z, labels=tf.constant([0, 1], tf.int64))
    return [
        loss,
        back,
        l2,
        b2,
        l3,
        t.gradient(loss, z),
        t.gradient(l2, z),
        t.gradient(l3, z),
        res.loss,
        res.backprop,
        type(res).__name__,
    ]


def case_convolution(tf, np):
    r = tf.raw_ops
    x = tf.constant(np.arange(16.0, dtype=np.float32).reshape(1, 4, 4, 1))
    k = tf.constant(np.arange(8.0, dtype=np.float32).reshape(2, 2, 1, 2) - 3)
    with tf.GradientTape() as t:
        t.watch([x, k])
        y = r.Conv2D(input=x, filter=k, strides=[1, 2, 2, 1], padding="SAME")
        y = r.BiasAdd(value=y, bias=[0.5, -0.5])
    return [
        y,
        t.gradient(y, [x, k]),
        r.Conv2D(input=x, filter=k, strides=[1, 1, 1, 1], padding="VALID"),
        r.Conv2D(
            input=x, filter=k, strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0]
        ),
        r.Conv2DBackpropInput(
            input_sizes=[1, 4, 4, 1], filter=k, out_backprop=tf.ones([1, 2, 2, 2]), strides=[1, 2, 2, 1], padding="SAME"
        ),
        r.Conv2DBackpropFilter(
            input=x, filter_sizes=[2, 2, 1, 2], out_backprop=tf.ones([1, 2, 2, 2]), strides=[1, 2, 2, 1], padding="SAME"
        ),
        r.DepthwiseConv2dNative(input=x, filter=k, strides=[1, 1, 1, 1], padding="VALID"),
        raises(lambda: r.Conv2D(input=x, filter=k, strides=[1, 1, 1, 1], padding="WHAT"), "ValueError"),
        raises(lambda: r.Conv2D(input=x, filter=k, padding="SAME")),
    ]


def case_pooling_and_resizing(tf, np):
    r = tf.raw_ops
    x = tf.constant(np.array([1, 5, 2, 0, 3, 9, 4, 4, 8, 7, 6, 5, 0, 1, 2, 3], np.float32).reshape(1, 4, 4, 1))
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        m = r.MaxPool(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
        a = r.AvgPool(value=x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME")
        b = r.ResizeBilinear(images=x, size=[2, 3])
        c = r.ResizeBilinear(images=x, size=[3, 3], align_corners=True)
        d = r.ResizeBilinear(images=x, size=[6, 6], half_pixel_centers=True)
        e = r.ResizeNearestNeighbor(images=x, size=[3, 2])
    arg = r.MaxPoolWithArgmax(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    return [
        m,
        a,
        b,
        c,
        d,
        e,
        [t.gradient(y, x) for y in (m, a, b, c, d, e)],
        arg.output,
        arg.argmax,
        r.MaxPoolGrad(
            orig_input=x, orig_output=m, grad=tf.ones_like(m), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
        ),
    ]


def case_batch_norm(tf, np):
    r = tf.raw_ops
    x = tf.constant(np.arange(12.0, dtype=np.float32).reshape(3, 1, 2, 2) ** 1.5)
    s, o = tf.constant([1.5, 0.5]), tf.constant([0.1, -0.1])
    with tf.GradientTape() as t:
        t.watch([x, s, o])
        y = r.FusedBatchNormV3(x=x, scale=s, offset=o, mean=[], variance=[], epsilon=0.001, is_training=True)
        z = y.y * tf.reshape(tf.range(12.0), [3, 1, 2, 2])
    inf = r.FusedBatchNormV3(
        x=x, scale=s, offset=o, mean=[1.0, 2.0], variance=[4.0, 9.0], epsilon=0.001, is_training=False
    )
    return [
        tol(y.y, 1e-4, 1e-5),
        y.batch_mean,
        y.batch_variance,
        tol(t.gradient(z, [x, s, o]), 1e-3, 1e-3),
        inf.y,
        inf.batch_mean,
        len(y),
    ]


def case_cast_shapes_and_fill(tf, np):
    r = tf.raw_ops
    x = tf.constant([[1.7, -2.2, 3.0]])
    return [
        r.Cast(x=x, DstT=tf.int32),
        r.Cast(x=x, DstT=tf.float64),
        r.Shape(input=x),
        r.Shape(input=x, out_type=tf.int64),
        r.Size(input=x),
        r.Rank(input=x),
        r.Fill(dims=[2, 2], value=7.0),
        r.Range(start=1, limit=10, delta=3),
        r.Range(start=tf.constant(0.0), limit=tf.constant(1.0), delta=tf.constant(0.25)),
        r.LinSpace(start=0.0, stop=1.0, num=5),
        r.Reshape(tensor=x, shape=[3, 1]),
        r.ExpandDims(input=x, axis=0),
        r.Squeeze(input=x),
        r.Squeeze(input=x, axis=[0]),
        r.Transpose(x=x, perm=[1, 0]),
        r.BroadcastTo(input=x, shape=[2, 3]),
        r.Tile(input=x, multiples=[2, 1]),
        r.OneHot(indices=[1, 0], depth=3, on_value=1.0, off_value=0.0),
        raises(lambda: r.Cast(x=x)),
    ]


def case_slicing_and_gathering(tf, np):
    r = tf.raw_ops
    x = tf.constant(np.arange(12.0).reshape(3, 4))
    return [
        r.StridedSlice(input=x, begin=[0, 1], end=[2, 4], strides=[1, 2]),
        r.StridedSlice(input=x, begin=[1, 0], end=[0, 0], strides=[1, 1], shrink_axis_mask=1, end_mask=2),
        r.StridedSlice(input=x, begin=[0, 0], end=[0, 0], strides=[-1, 1], begin_mask=3, end_mask=3),
        r.StridedSlice(input=x, begin=[0, 0], end=[0, 2], strides=[1, 1], ellipsis_mask=1),
        r.StridedSlice(input=x, begin=[0], end=[0], strides=[1], new_axis_mask=1),
        r.Slice(input=x, begin=[1, 1], size=[2, -1]),
        r.GatherV2(params=x, indices=[2, 0], axis=0),
        r.GatherV2(params=x, indices=[[3], [1]], axis=1),
        r.GatherV2(params=x, indices=[[1], [0], [3]], axis=1, batch_dims=1),
        r.Gather(params=x, indices=[1]),
        r.GatherNd(params=x, indices=[[0, 1], [2, 3]]),
        r.ScatterNd(indices=[[1], [3]], updates=[5.0, 6.0], shape=[4]),
        r.TensorScatterUpdate(tensor=x, indices=[[0]], updates=tf.zeros([1, 4], tf.float64)),
        raises(lambda: r.GatherV2(params=x, indices=[3], axis=0)),
        raises(lambda: r.GatherV2(params=x, indices=[0])),
    ]


def case_gradient_of_slicing_and_gathering(tf, np):
    r = tf.raw_ops
    x = tf.constant(np.arange(12.0).reshape(3, 4))
    out = []
    for f in (
        lambda: r.StridedSlice(input=x, begin=[0, 1], end=[2, 4], strides=[1, 2]),
        lambda: r.GatherV2(params=x, indices=[2, 0, 2], axis=0),
        lambda: r.GatherV2(params=x, indices=[3, 3], axis=1),
        lambda: r.Slice(input=x, begin=[1, 1], size=[2, -1]),
        lambda: r.Concat(concat_dim=0, values=[x, x * 2.0]),
        lambda: r.Pad(input=x, paddings=[[1, 0], [0, 2]]),
        lambda: r.Reverse(tensor=x, dims=[True, False]),
        lambda: r.ReverseV2(tensor=x, axis=[1]),
        lambda: r.Cumsum(x=x, axis=1, exclusive=True),
    ):
        with tf.GradientTape() as t:
            t.watch(x)
            y = f() ** 2
        out.append(dense(t.gradient(y, x)))
    return out


def case_concat_pack_split(tf, np):
    r = tf.raw_ops
    a, b = tf.constant([[1, 2], [3, 4]]), tf.constant([[5, 6]])
    s = r.Split(axis=0, value=tf.range(6), num_split=3)
    return [
        r.ConcatV2(values=[a, b], axis=0),
        r.Concat(concat_dim=0, values=[a, b]),
        r.Pack(values=[a, a], axis=1),
        r.Unpack(value=a, num=2),
        r.Unpack(value=a, num=2, axis=1),
        s,
        r.SplitV(value=tf.range(6), size_splits=[1, 2, 3], axis=0, num_split=3),
        r.Pad(input=b, paddings=[[0, 1], [1, 0]]),
        r.PadV2(input=b, paddings=[[0, 1], [1, 0]], constant_values=9),
        r.MirrorPad(input=b, paddings=[[0, 0], [1, 1]], mode="REFLECT"),
        raises(lambda: r.Unpack(value=a, num=3), "ValueError"),
        raises(lambda: r.ConcatV2(values=[a, tf.constant([1])], axis=0), "ValueError"),
    ]


def case_selection(tf, np):
    r = tf.raw_ops
    x = tf.constant([3, 1, 3, 2, 1])
    u = r.Unique(x=x)
    k = r.TopKV2(input=tf.constant([1.0, 9.0, 3.0, 9.0]), k=2)
    return [
        u.y,
        u.idx,
        r.UniqueWithCounts(x=x, out_idx=tf.int64).count,
        r.Where(condition=[[True, False], [False, True]]),
        r.Where(condition=tf.constant([0, 5])),
        k.values,
        k.indices,
        r.Select(condition=[True, False], x=[1, 2], y=[3, 4]),
        r.SelectV2(condition=[True, False], t=[1, 2], e=9),
        r.Select(condition=[True, False], x=[[1, 1], [2, 2]], y=[[3, 3], [4, 4]]),
        r.ArgMax(input=[1.0, 5.0, 2.0], dimension=0),
        r.ArgMax(input=[[1, 2], [4, 3]], dimension=1, output_type=tf.int32),
        r.InTopKV2(predictions=[[0.1, 0.9], [0.8, 0.2]], targets=[1, 1], k=1),
        r.InvertPermutation(x=[2, 0, 1]),
        r.ListDiff(x=[1, 2, 3], y=[2]),
        r.Bincount(arr=[1, 1, 3], size=5, weights=tf.constant([], tf.float32)),
    ]


def case_gradient_of_selection(tf, np):
    r = tf.raw_ops
    x, y = tf.constant([1.0, 9.0, 3.0, 9.0]), tf.constant([4.0, 3.0, 2.0, 1.0])
    out = []
    for f in (
        lambda: r.TopKV2(input=x, k=2).values + 0.0 * r.Sum(input=y, axis=0),
        lambda: r.SelectV2(condition=[True, False, True, False], t=x, e=y),
        lambda: r.Select(condition=[True, False, True, False], x=x, y=y),
        lambda: r.Maximum(x=x, y=y),
        lambda: r.AddN(inputs=[x, y, x]),
        lambda: r.Pack(values=[x, y]),
        lambda: r.ConcatV2(values=[x, y], axis=0),
    ):
        with tf.GradientTape() as t:
            t.watch([x, y])
            z = f() ** 2
        out.append(t.gradient(z, [x, y]))
    return out


def case_reductions(tf, np):
    r = tf.raw_ops
    x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = tf.constant([[True, False], [True, True]])
    out = [
        r.Sum(input=x, axis=1),
        r.Sum(input=x, axis=[0, 1], keep_dims=True),
        r.Mean(input=x, axis=0),
        r.Max(input=x, axis=[1]),
        r.Min(input=x, axis=0),
        r.Prod(input=x, axis=1),
        r.All(input=b, axis=1),
        r.Any(input=b, axis=0, keep_dims=True),
        r.Cumsum(x=x, axis=1, reverse=True),
        r.Cumprod(x=x, axis=0),
        r.EuclideanNorm(input=x, axis=1),
        r.ReduceJoin(inputs=[["a", "b"], ["c", "d"]], reduction_indices=1, separator="-"),
        r.ReduceJoin(inputs=[["a", "b"], ["c", "d"]], reduction_indices=[0], keep_dims=True),
    ]
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        ys = [
            r.Sum(input=x, axis=1) ** 2,
            r.Mean(input=x, axis=0) ** 2,
            r.Max(input=x, axis=[1]) ** 2,
            r.Prod(input=x, axis=1),
            r.EuclideanNorm(input=x, axis=1),
        ]
    return out + [t.gradient(y, x) for y in ys]


def case_segments_and_bits(tf, np):
    r = tf.raw_ops
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    return [
        r.SegmentSum(data=x, segment_ids=[0, 0, 2]),
        r.SegmentMean(data=x, segment_ids=[0, 0, 1]),
        r.UnsortedSegmentSum(data=x, segment_ids=[2, 0, 2], num_segments=3),
        r.UnsortedSegmentMax(data=x, segment_ids=[1, 0, 1], num_segments=2),
        r.BitwiseAnd(x=tf.constant([6]), y=tf.constant([3])),
        r.LeftShift(x=tf.constant([1]), y=tf.constant([4])),
        r.Invert(x=tf.constant([0])),
        r.Bitcast(input=tf.constant([1.0]), type=tf.int32),
    ]


def case_strings(tf, np):
    r = tf.raw_ops
    return [
        r.StringJoin(inputs=[["a", "b"], ["c", "d"]], separator="+"),
        r.StringUpper(input="ab"),
        r.StringLength(input=["abc", ""]),
        r.StringToNumber(string_tensor=["1.5"]),
        r.AsString(input=[1, 2]),
        r.RegexReplace(input="aXb", pattern="X", rewrite="-"),
        r.StaticRegexReplace(input="aXb", pattern="X", rewrite="_"),
        r.StringToHashBucketFast(input=["a", "b"], num_buckets=10),
        r.Substr(input="hello", pos=1, len=2),
        r.StringSplitV2(input=["a b", "c"], sep="").values,
    ]


def case_in_function_and_linalg(tf, np):
    r = tf.raw_ops
    m = tf.constant([[4.0, 1.0], [1.0, 3.0]])

    @tf.function
    def f(x):
        y = r.MatMul(a=x, b=x, transpose_b=True)
        return r.Relu(features=r.Sub(x=y, y=10.0)), r.Sum(input=y, axis=0)

    s = r.Svd(input=m, compute_uv=False)
    with tf.GradientTape() as t:
        t.watch(m)
        z = r.Cholesky(input=m)
    return [
        f(m),
        r.Cholesky(input=m),
        r.MatrixInverse(input=m),
        r.MatrixDeterminant(input=m),
        r.MatrixSolve(matrix=m, rhs=[[1.0], [2.0]]),
        s.s,
        t.gradient(z, m),
        r.MatrixDiagPart(input=m),
        r.MatrixBandPart(input=m, num_lower=0, num_upper=-1),
        r.Diag(diagonal=[1.0, 2.0]),
        r.Qr(input=m).r.shape,
    ]
