"""Special functions and activations: accuracy, derivatives of every order, dtypes, ends of domains, bad input.

The reference values were computed in 45 digits and more, and rounded to float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gradtape as tf
from gradtape._src.arrays.numpy import special as numpy_special

inf, nan = math.inf, math.nan

# fmt: off
REFERENCE: dict[str, list[tuple[float, ...]]] = {
    "erf": [
        (1e-300, 1.1283791670955126e-300), (1e-08, 1.1283791670955126e-08), (0.3, 0.3286267594591274),
        (-0.75, -0.7111556336535151), (1.0, 0.8427007929497149), (1.5, 0.9661051464753108),
        (-3.0, -0.9999779095030014), (5.5, 0.9999999999999927),
    ],
    "erfc": [
        (-5.0, 1.9999999999984626), (-0.6, 1.6038560908479258), (1e-09, 0.9999999988716208),
        (0.4, 0.5716076449533315), (0.6, 0.3961439091520741), (1.9, 0.0072095707647425325),
        (3.7, 1.6715105790914599e-07), (8.0, 1.1224297172982926e-29), (26.0, 5.663192408856143e-296),
    ],
    "erfinv": [
        (1e-12, 8.86226925452758e-13), (0.3, 0.2724627147267543), (-0.74, -0.7964788056117074),
        (0.8, 0.9061938024368233), (0.99, 1.8213863677184494), (-0.999999, -3.458910737275499),
        (0.9999999999999991, 5.686128441310391),
    ],
    "erfcinv": [
        (1e-300, 26.209469960516124), (1e-30, 8.148616223169865), (0.01, 1.8213863677184496),
        (0.3, 0.7328690779592169), (1.2, -0.17914345462129164), (1.9, -1.1630871536766738),
        (1.999999, -3.4589107372909473),
    ],
    "ndtri": [
        (1e-300, -37.0470962993612), (1e-20, -9.262340089798407), (0.001, -3.0902323061678136),
        (0.2, -0.8416212335729142), (0.7, 0.5244005127080407), (0.95, 1.6448536269514722),
        (0.9999999999990905, 7.047700256664409),
    ],
    "lgamma": [
        (1e-300, 690.7755278982137), (0.001, 6.907178885383853), (0.7, 0.26086724653166654),
        (1.0000001, -5.772155829918507e-08), (1.9, -0.03898427592308336), (3.3, 0.9870985778947344),
        (6.0, 4.787491742782046), (9.5, 11.689333420797269), (171.0, 706.5730622457874),
        (100000.0, 1051287.7089736569), (-0.5, 1.2655121234846454), (-3.3, -0.8243558050174264),
        (-50.7, -149.8713235486061),
    ],
    "digamma": [
        (1e-05, -100000.57719921567), (0.3, -3.502524222200133), (1.4, -0.06138454458511624),
        (1.4616321449683622, -9.241265521729427e-17), (2.5, 0.7031566406452432), (5.5, 1.6110931485817512),
        (12.0, 2.442661679975812), (100000000.0, 18.420680738952367), (-0.4, 0.9593807861068093),
        (-7.3, 4.33730730551005),
    ],
    "polygamma": [
        (1.0, 0.25, 17.19732915450711), (1.0, 2.5, 0.49035775610023485), (2.0, 1.0, -2.4041138063191885),
        (3.0, 30.0, 7.78600366473613e-05), (5.0, 0.1, 120000069.30751093), (10.0, 4.0, -0.9519244156357158),
        (1.0, -1.5, 9.379246644989124), (2.0, -0.3, 67.63908119988317), (20.0, 1000.0, -1.2286580895552956e-43),
    ],
    "zeta": [
        (1.01, 1.0, 100.57794333849678), (1.5, 0.2, 13.459632324391384), (2.0, 5.0, 0.22132295573711533),
        (7.5, 2.0, 0.005826727536522807), (30.0, 1.5, 5.215096203815732e-06), (50.0, 40.0, 1.1183937762334741e-80),
        (2.0, -1.5, 9.379246644989124), (3.0, -2.3, -34.356896264635154),
    ],
    "igamma": [
        (0.01, 1e-05, 0.8963367982671973), (0.5, 0.3, 0.5614219739190002), (2.0, 1.0, 0.26424111765711533),
        (2.0, 30.0, 0.9999999999970991), (10.0, 3.0, 0.0011024881301154798), (50.0, 55.0, 0.7677952194991436),
        (150.0, 120.0, 0.004563441304151243), (10000.0, 10100.0, 0.8413487504471796),
    ],
    "igammac": [
        (0.0001, 0.001, 0.0006329617458344914), (0.01, 0.4, 0.007049438210944962), (0.5, 2.0, 0.04550026389635842),
        (2.0, 60.0, 5.341471565244877e-25), (10.0, 3.0, 0.9988975118698845), (50.0, 80.0, 0.00013078397659141034),
        (150.0, 220.0, 2.3704491779647943e-07), (10000.0, 10300.0, 0.0014704948963856813),
    ],
    "betainc": [
        (0.5, 0.5, 0.1, 0.20483276469913345), (2.0, 3.0, 0.9, 0.9963), (0.01, 5.0, 0.3, 0.9991442234826966),
        (20.0, 0.3, 0.7, 7.065235831779575e-05), (150.0, 90.0, 0.6, 0.21076186619433573),
        (2.0, 5.0, 1e-08, 1.4999999600000005e-15), (10000.0, 20000.0, 0.33, 0.11020551912741972),
    ],
    "bessel_i0": [
        (0.0, 1.0), (0.5, 1.0634833707413236), (-3.0, 4.8807925858650245), (8.5, 683.1619269901156),
        (100.0, 1.0737517071310738e+42), (700.0, 1.5295933476718737e+302),
    ],
    "bessel_i1": [
        (1e-10, 5e-11), (0.5, 0.2578943053908963), (-3.0, -3.9533702174026093), (8.5, 641.6199025400667),
        (100.0, 1.0683693903381625e+42), (700.0, 1.5285003902339006e+302),
    ],
    "bessel_i0e": [
        (0.0, 1.0), (-2.0, 0.30850832255367105), (9.0, 0.134959524581723), (10000.0, 0.003989472674604732),
    ],
    "bessel_i1e": [
        (1e-10, 4.9999999995e-11), (-2.0, -0.21526928924893765), (9.0, 0.1272249839358912),
        (10000.0, 0.003989273195983662),
    ],
    "bessel_k0": [
        (1e-10, 23.14178244559887), (0.5, 0.9244190712276659), (1.9, 0.1288459792760475), (2.1, 0.10078374088996693),
        (20.0, 5.741237815336525e-10), (600.0, 1.3558285309948523e-262),
    ],
    "bessel_k1": [
        (1e-10, 10000000000.0), (0.5, 1.656441120003301), (1.9, 0.15966015303266762), (2.1, 0.12274641153350789),
        (20.0, 5.883057969557038e-10), (600.0, 1.356957918112806e-262),
    ],
    "bessel_k0e": [
        (0.001, 7.030716002378251), (1.0, 1.144463079806895), (5.0, 0.547807564313519),
        (10000.0, 0.012532984717699286),
    ],
    "bessel_k1e": [
        (0.001, 1000.9967345590684), (1.0, 1.6361534862632583), (5.0, 0.6002738587883126),
        (10000.0, 0.012533611351270506),
    ],
    "bessel_j0": [
        (0.0, 1.0), (1.0, 0.7651976865579666), (-2.4, 0.002507683297243859), (4.9, -0.2097383275853262),
        (5.1, -0.14433474706050065), (20.0, 0.16702466434058316), (500.0, -0.034100556880732),
    ],
    "bessel_j1": [
        (1e-10, 5e-11), (1.0, 0.4400505857449335), (-3.8, -0.0128210029267317), (4.9, -0.31469467101519066),
        (5.1, -0.3370972020182318), (20.0, 0.06683312417585005), (500.0, 0.010472613470372294),
    ],
    "bessel_y0": [
        (1e-10, -14.732516272697241), (0.5, -0.44451873350670656), (2.0, 0.5103756726497451),
        (4.5, -0.19470500862950454), (5.1, -0.3216024491248594), (20.0, 0.06264059680938383),
        (500.0, 0.010506708739831373),
    ],
    "bessel_y1": [
        (1e-10, -6366197723.675814), (0.5, -1.471472392670243), (2.5, 0.1459181379667858), (4.5, 0.3009973230696546),
        (5.1, 0.11373644197749973), (20.0, -0.1655116143625213), (500.0, 0.03411108062913713),
    ],
    "dawsn": [
        (1e-10, 1e-10), (0.9, 0.5407243187262987), (-2.5, -0.2230837221674355), (4.5, 0.11408861022682498),
        (6.5, 0.07786781898606987), (30.0, 0.016675941401059175),
    ],
    "expint": [
        (1e-10, -22.448635264938925), (0.3, -0.30266853926582593), (0.38, 0.02901122141928304),
        (3.0, 9.933832570625416), (8.0, 440.3798995348383), (15.0, 234955.8524907683), (30.0, 368973209407.2742),
        (60.0, 1.9361822139292765e+24), (700.0, 1.4509787360525608e+301),
    ],
    "fresnel_sin": [
        (0.001, 5.235987755982066e-10), (0.8, 0.2493413930539178), (-1.5, -0.6975049600820931),
        (1.7, 0.5491959403215686), (4.0, 0.42051575424692844), (1000.25, 0.4996833020274881),
    ],
    "fresnel_cos": [
        (0.001, 0.0009999999999997533), (0.8, 0.7228441718963562), (-1.5, -0.4452611760398215),
        (1.7, 0.32382687600390025), (4.0, 0.4984260330381776), (1000.25, 0.500031191926018),
    ],
    "spence": [
        (1e-05, 1.6448089369929264), (0.3, 0.8893776242860387), (0.9, 0.1026177910993911), (1.5, -0.4484142069236462),
        (3.0, -1.4367463668836808), (1000000.0, -97.07908523994168),
    ],
}
# a, x, and the first and second derivative of igamma(a, x) with respect to a.
IGAMMA_BY_A = [
    (0.5, 0.3, -0.7705703513753519, 0.6261476558399126),
    (2.0, 1.0, -0.2761960457028348, 0.20511882229077996),
    (3.0, 9.0, -0.008695466419742526, -0.00974314425983431),
    (20.0, 25.0, -0.046727804534347564, -0.010460910926487706),
    (150.0, 140.0, -0.023793726651202104, 0.0016425984483329275),
    (400.0, 430.0, -0.006587534402218794, -0.00047651069231914535),
]
# fmt: on
TOLERANCE = {
    "igamma": 5e-14,
    "igammac": 5e-14,
    "betainc": 5e-13,
    "bessel_j0": 1e-14,
    "bessel_j1": 1e-14,
    "bessel_y0": 1e-13,
    "bessel_y1": 1e-13,
}  # fmt: skip
EVERYWHERE = np.array([-2.5, -1.0, -0.3, 0.4, 1.0, 1.7, 3.2])
POSITIVE = np.array([0.2, 0.7, 1.0, 1.9, 3.5, 7.0])
WITHIN = np.array([0.05, 0.3, 0.5, 0.8, 0.97])


def function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(tf.math, name, None) or getattr(tf.math.special, name, None)
    return getattr(tf.nn, name) if found is None else found


def column(name: str, index: int) -> np.ndarray:
    return np.array([row[index] for row in REFERENCE[name]])


def arguments(name: str) -> list[np.ndarray]:
    return [column(name, i) for i in range(len(REFERENCE[name][0]) - 1)]


def derivative(f: Callable[..., Any], *args: Any, by: int = 0, order: int = 1) -> np.ndarray:
    """The derivative of an elementwise function, `order` times by the same argument."""
    tensors = [tf.constant(a, tf.float64) for a in args]

    def nth(n: int) -> Any:
        if n == 0:
            return f(*tensors)
        with tf.GradientTape() as tape:
            tape.watch(tensors[by])
            y = nth(n - 1)
        return tape.gradient(y, tensors[by])

    result: np.ndarray = nth(order).numpy()
    return result


# -- accuracy ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", REFERENCE)
def test_accuracy_in_float64(name: str) -> None:
    got = function(name)(*(tf.constant(a) for a in arguments(name))).numpy()
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, column(name, -1), rtol=TOLERANCE.get(name, 3e-15), atol=0)


@pytest.mark.parametrize("name", REFERENCE)
def test_accuracy_in_float32(name: str) -> None:
    """The float32 result is that of the float64 function at the float32 arguments."""
    given = [tf.constant(a, tf.float32) for a in arguments(name)]
    want = function(name)(*(tf.constant(g.numpy().astype(np.float64)) for g in given)).numpy()
    got = function(name)(*given).numpy()
    assert got.dtype == np.float32
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(got, want.astype(np.float32), rtol=4e-7, atol=1e-45)


def test_many_elements_are_computed_in_blocks() -> None:
    x = np.linspace(-6, 6, 40001)
    whole = tf.math.erf(tf.constant(x)).numpy()
    assert np.array_equal(whole[::100], tf.math.erf(tf.constant(x[::100])).numpy())
    grid = tf.math.lgamma(tf.constant(np.abs(x[:40000]).reshape(200, 2, 100))).numpy()
    assert grid.shape == (200, 2, 100)
    assert np.array_equal(grid.ravel(), tf.math.lgamma(tf.constant(np.abs(x[:40000]))).numpy())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)])
def test_shapes(shape: tuple[int, ...]) -> None:
    for name in ("erf", "lgamma", "bessel_j1", "gelu", "softsign"):
        assert function(name)(tf.ones(shape)).shape == shape
    assert tf.math.igamma(tf.ones(shape), tf.ones(shape)).shape == shape
    assert tf.math.betainc(tf.ones(shape), 2.0, 0.5).shape == shape


def test_float32_is_monotone_and_bounded_where_it_is_hot() -> None:
    x = np.linspace(-8, 8, 100001).astype(np.float32)
    y = tf.math.erf(tf.constant(x)).numpy()
    assert y.min() == -1
    assert y.max() == 1
    assert np.array_equal(y, -tf.math.erf(tf.constant(-x)).numpy())
    tail = tf.nn.gelu(tf.constant([-6.0, -9.0, -12.0])).numpy()  # not lost to cancellation
    np.testing.assert_allclose(tail, [-5.919526e-09, -1.0157301e-18, -2.1317854e-32], rtol=1e-5)


@pytest.mark.parametrize(("low", "high", "ulps"), [(-5, -2, 14), (-2, -1, 7), (-1, 1, 5.5), (1, 13, 2)])
@pytest.mark.parametrize("name", ["ndtr", "gelu"])
def test_the_normal_distribution_in_float32_is_close_to_that_in_float64(
    name: str, low: float, high: float, ulps: float
) -> None:
    x = np.linspace(low, high, 200001).astype(np.float32)
    want = numpy_special.ndtr(x.astype(np.float64)) * (1 if name == "ndtr" else x)
    error = np.abs(getattr(numpy_special, name)(x) - want)
    assert (error / np.spacing(np.abs(want).astype(np.float32)))[x != 0].max() <= ulps


def test_gelu_keeps_the_sign_of_zero() -> None:
    x = np.array([0.0, -0.0, -20.0, -3e38], np.float32)
    np.testing.assert_array_equal(np.signbit(numpy_special.gelu(x)), [False, True, True, True])


# -- identities --------------------------------------------------------------------------------------------------------
def test_inverses() -> None:
    p = tf.constant(np.array([1e-15, 1e-4, 0.2, 0.5, 0.77, 0.999]))
    np.testing.assert_allclose(tf.math.erf(tf.math.erfinv(p)).numpy(), p.numpy(), rtol=4e-15)
    np.testing.assert_allclose(tf.math.erfc(tf.math.erfcinv(p)).numpy(), p.numpy(), rtol=2e-13)
    want = -np.sqrt(2) * tf.math.erfcinv(2 * p).numpy()
    np.testing.assert_allclose(tf.math.ndtri(p).numpy(), want, rtol=2e-15, atol=1e-16)


def test_gamma_family() -> None:
    x = tf.constant(POSITIVE)
    np.testing.assert_allclose(tf.math.lgamma(x + 1).numpy(), (tf.math.lgamma(x) + tf.math.log(x)).numpy(), atol=2e-15)
    np.testing.assert_allclose(tf.math.digamma(x + 1).numpy(), (tf.math.digamma(x) + 1 / x).numpy(), rtol=4e-15)
    np.testing.assert_allclose(tf.math.polygamma(0.0, x).numpy(), tf.math.digamma(x).numpy(), rtol=0)
    a = tf.constant([[0.3], [2.0], [40.0], [300.0]], tf.float64)
    total = tf.math.igamma(a, a * x / 2) + tf.math.igammac(a, a * x / 2)
    np.testing.assert_allclose(total.numpy(), np.ones((4, 6)), rtol=3e-15)
    np.testing.assert_allclose(tf.math.igammac(tf.constant(1.0, tf.float64), x).numpy(), np.exp(-POSITIVE), rtol=4e-15)


def test_beta_is_symmetric() -> None:
    a, b, x = (tf.constant(v) for v in (POSITIVE, POSITIVE[::-1].copy(), np.linspace(0.1, 0.9, 6)))
    total = tf.math.betainc(a, b, x) + tf.math.betainc(b, a, 1 - x)
    np.testing.assert_allclose(total.numpy(), np.ones(6), rtol=4e-15)
    pair = tf.stack([a, b], axis=1)
    want = tf.math.lgamma(a) + tf.math.lgamma(b) - tf.math.lgamma(a + b)
    np.testing.assert_allclose(tf.math.lbeta(pair).numpy(), want.numpy(), rtol=1e-15)


def test_wronskians_of_the_bessel_functions() -> None:
    x = tf.constant(np.array([0.1, 1.0, 4.0, 9.0, 50.0]))
    s = tf.math.special
    circular = s.bessel_j1(x) * s.bessel_y0(x) - s.bessel_j0(x) * s.bessel_y1(x)
    np.testing.assert_allclose((circular * x).numpy(), np.full(5, 2 / np.pi), rtol=4e-14)
    modified = s.bessel_i0e(x) * s.bessel_k1e(x) + s.bessel_i1e(x) * s.bessel_k0e(x)
    np.testing.assert_allclose((modified * x).numpy(), np.ones(5), rtol=2e-15)


# -- derivatives -------------------------------------------------------------------------------------------------------
SMOOTH = {
    **dict.fromkeys(("erf", "erfc", "bessel_i0", "bessel_i1", "bessel_j0", "bessel_j1", "dawsn"), EVERYWHERE),
    **dict.fromkeys(("bessel_i0e", "bessel_i1e", "fresnel_sin", "fresnel_cos", "softsign"), EVERYWHERE),
    **dict.fromkeys(("elu", "selu", "gelu", "silu"), EVERYWHERE),
    **dict.fromkeys(("lgamma", "digamma", "expint", "bessel_k0", "bessel_k1", "bessel_k0e", "bessel_k1e"), POSITIVE),
    **dict.fromkeys(("bessel_y0", "bessel_y1", "spence"), POSITIVE),
    **dict.fromkeys(("erfinv", "ndtri", "erfcinv"), WITHIN),
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", SMOOTH)
def test_each_derivative_is_that_of_the_one_before(name: str, order: int) -> None:
    f, x = function(name), SMOOTH[name]
    step = 2e-4 if x is WITHIN else 1e-3
    sides = [
        derivative(f, x + k * step, order=order - 1) if order > 1 else f(tf.constant(x + k * step)).numpy()
        for k in (-2, -1, 1, 2)
    ]
    numeric = (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / (12 * step)
    np.testing.assert_allclose(derivative(f, x, order=order), numeric, rtol=2e-6, atol=1e-8)


INVALID = {"ndtr": [], "gelu": [-np.inf], "gelu_slope": [-np.inf, np.inf]}
"""Where 0 times infinity is NaN, as in TensorFlow."""


@pytest.mark.filterwarnings("ignore:invalid value")  # at infinity
@pytest.mark.parametrize("name", ["ndtr", "gelu", "gelu_slope"])
def test_the_normal_distribution_does_not_depend_on_the_size_of_the_array(name: str) -> None:
    extremes = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 15.0, -15.0, 15.1, -15.1, 3e38, -3e38, -14.0]
    x = np.concatenate([extremes, np.linspace(-16, 16, 9986)]).astype(np.float32)
    kernel = getattr(numpy_special, name)
    whole, parts = kernel(x), np.concatenate([kernel(part) for part in np.split(x, 10)])
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(np.isnan(whole), np.isnan(x) | np.isin(x, INVALID[name]))


def test_gelu_by_tanh_has_its_derivatives() -> None:
    step, x = 1e-4, EVERYWHERE
    first = [derivative(lambda t: tf.nn.gelu(t, approximate=True), x + k * step) for k in (-1, 1)]
    second = derivative(lambda t: tf.nn.gelu(t, approximate=True), x, order=2)
    np.testing.assert_allclose(second, (first[1] - first[0]) / (2 * step), rtol=1e-6)


def test_derivatives_of_bessel_functions_at_zero() -> None:
    """TensorFlow gives 1 for the slope of I1 at 0; it is a half, and the ones after it are right too."""
    zero = np.zeros(1)
    assert [derivative(tf.math.bessel_i1, zero, order=n).item() for n in range(1, 6)] == [0.5, 0, 0.375, 0, 0.3125]
    assert [derivative(tf.math.bessel_i0, zero, order=n).item() for n in range(1, 5)] == [0, 0.5, 0, 0.375]
    found = [derivative(tf.math.special.bessel_j0, zero, order=n).item() for n in range(1, 5)]
    assert found == [0, -0.5, 0, 0.375]


def test_derivatives_of_spence_at_one() -> None:
    found = [derivative(tf.math.special.spence, np.ones(1), order=n).item() for n in range(1, 5)]
    np.testing.assert_allclose(found, [-1, 1 / 2, -2 / 3, 3 / 2], rtol=1e-14)


@pytest.mark.parametrize(("a", "x", "first", "second"), IGAMMA_BY_A)
def test_igamma_by_its_parameter(a: float, x: float, first: float, second: float) -> None:
    assert derivative(tf.math.igamma, a, x) == pytest.approx(first, rel=2e-13)
    assert derivative(tf.math.igammac, a, x) == pytest.approx(-first, rel=2e-13)
    assert derivative(tf.math.igamma, a, x, order=2) == pytest.approx(second, rel=1e-11)


def test_igamma_by_both_arguments() -> None:
    a, x, step = np.array([0.7, 3.0, 120.0]), np.array([0.4, 5.0, 118.0]), 1e-3

    def slope(a: np.ndarray) -> np.ndarray:
        return derivative(tf.math.igamma, a, x, by=1)

    numeric = (slope(a - 2 * step) - 8 * slope(a - step) + 8 * slope(a + step) - slope(a + 2 * step)) / (12 * step)
    tensors = tf.constant(a), tf.constant(x)
    with tf.GradientTape() as outer:
        outer.watch(tensors)
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            y = tf.math.igamma(*tensors)
        by_a = tape.gradient(y, tensors[0])
    np.testing.assert_allclose(outer.gradient(by_a, tensors[1]).numpy(), numeric, rtol=1e-8)


def test_derivatives_of_several_arguments() -> None:
    n, x = tf.constant([0.0, 1.0, 3.0], tf.float64), tf.constant([0.5, 2.0, 4.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([n, x])
        y = tf.math.polygamma(n, x)
    by_n, by_x = tape.gradient(y, [n, x])
    assert by_n is None
    np.testing.assert_allclose(by_x.numpy(), tf.math.polygamma(n + 1, x).numpy(), rtol=1e-15)
    a, b, p = (tf.constant(v, tf.float64) for v in (2.0, 3.0, 0.25))
    with tf.GradientTape() as tape:
        tape.watch([a, b, p])
        y = tf.math.betainc(a, b, p)
    by_a, by_b, by_p = tape.gradient(y, [a, b, p])
    assert by_a is None
    assert by_b is None
    assert by_p.numpy() == pytest.approx(12 * 0.25 * 0.75**2, rel=1e-14)


def test_jacobians_of_batches() -> None:
    x = tf.constant(POSITIVE[:4].reshape(2, 2))
    for f in (tf.math.lgamma, tf.nn.gelu, tf.nn.leaky_relu, lambda t: tf.math.igamma(t, 2.0), tf.math.bessel_i1):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        rows = tape.jacobian(y, x).numpy().reshape(4, 4)
        np.testing.assert_allclose(rows, np.diag(tape.gradient(y, x).numpy().ravel()), rtol=1e-14)


# -- kinks and ends of domains -----------------------------------------------------------------------------------------
ENDS = {
    "erf": ([-inf, inf, nan, 0.0], [-1, 1, nan, 0]),
    "erfc": ([-inf, inf, nan, 40.0], [2, 0, nan, 0]),
    "erfinv": ([-1.0, 1.0, 1.5, nan], [-inf, inf, nan, nan]),
    "erfcinv": ([0.0, 2.0, 1.0, -1.0], [inf, -inf, 0, nan]),
    "ndtri": ([0.0, 1.0, 0.5, 1.1], [-inf, inf, 0, nan]),
    "lgamma": ([0.0, -3.0, inf, -inf, nan, 1.0, 2.0], [inf, inf, inf, inf, nan, 0, 0]),
    "digamma": ([0.0, -3.0, inf, -inf, nan], [nan, nan, inf, nan, nan]),
    "bessel_i0": ([0.0, inf, -inf, 800.0], [1, inf, inf, inf]),
    "bessel_i1": ([0.0, inf, -inf], [0, inf, -inf]),
    "bessel_i0e": ([0.0, inf, nan], [1, 0, nan]),
    "bessel_k0": ([0.0, inf, -1.0], [inf, 0, nan]),
    "bessel_k1": ([0.0, inf, -1.0], [inf, 0, nan]),
    "bessel_j0": ([0.0, inf, -inf, nan], [1, 0, 0, nan]),
    "bessel_y0": ([0.0, inf, -1.0], [-inf, 0, nan]),
    "bessel_y1": ([0.0, inf, -1.0], [-inf, 0, nan]),
    "dawsn": ([0.0, inf, -inf, nan], [0, 0, 0, nan]),
    "expint": ([0.0, inf, -1.0, nan], [-inf, inf, nan, nan]),
    "fresnel_sin": ([0.0, inf, -inf, nan], [0, 0.5, -0.5, nan]),
    "spence": ([0.0, 1.0, inf, -1.0], [math.pi**2 / 6, 0, -inf, nan]),
    "gelu": ([-inf, inf, nan, 0.0], [nan, inf, nan, 0]),  # as TensorFlow has it: minus infinity times 0
    "relu6": ([-inf, inf, nan, 6.0], [0, 6, nan, 6]),
    "selu": ([-inf, inf, nan, 0.0], [-1.7580993408473768, inf, nan, 0]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ENDS)
def test_ends_of_domains(name: str, dtype: str) -> None:
    given, want = ENDS[name]
    np.testing.assert_allclose(function(name)(tf.constant(given, dtype)).numpy(), np.array(want, dtype), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-11), ("float32", 5e-4)])
def test_derivatives_of_dawsn_do_not_cancel(dtype: str, rtol: float) -> None:
    """1 - 2 x dawsn(x) is a difference of numbers close to 1: of large numbers it would be their rounding errors."""
    x = tf.constant([15.0, 20.5, 25.0, 100.0, 1e15, inf], dtype)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.math.special.dawsn(x)
        slope = tape.gradient(y, x)
    want = [-0.002237204259176776, -0.001194040114171238, -0.0008019277233204113, -5.000750187565655e-5, -5e-31, 0]
    np.testing.assert_allclose(slope, np.array(want, dtype), rtol=rtol)
    want = [0.00030031415802483, 0.00011691101691482, 6.4309057087747e-5, 1.0003001125525e-6, 1e-45, 0]
    np.testing.assert_allclose(outer.gradient(slope, x), want, rtol=rtol, atol=1e-44)


def test_ends_of_functions_of_several() -> None:
    def check(got: Any, *want: float) -> None:
        np.testing.assert_array_equal(got.numpy(), np.array(want, np.float32))

    check(tf.math.zeta([1.0, 0.5, 2.0, 2.0, 3.0, 2.5], [2.0, 2.0, 0.0, -1.0, -2.0, -1.5]), inf, nan, inf, inf, nan, nan)
    check(tf.math.polygamma([0.0, 1.0, 1.5, -1.0, 2.0], [0.0, 0.0, 2.0, 2.0, -1.0]), nan, inf, nan, nan, nan)
    a, x = [0.0, 0.0, 1.0, 1.0, -1.0, 1.0, inf], [0.0, 1.0, 0.0, -1.0, 1.0, inf, 1.0]
    check(tf.math.igamma(a, x), 0, nan, 0, nan, nan, 1, 0)
    check(tf.math.igammac([0.0, 1.0, 1.0, 1.0], [0.0, 0.0, -1.0, inf]), nan, 1, nan, 0)
    check(tf.math.betainc([0.0, 1.0, 1.0, 1.0], [1.0, 2.0, 2.0, 1.0], [0.5, 0.0, 1.0, 1.5]), nan, 0, 1, nan)
    check(tf.math.xlogy([0.0, 0.0, 0.0, 1.0], [nan, -1.0, inf, -1.0]), 0, 0, 0, nan)
    check(tf.math.xlog1py([0.0, 0.0, 1.0], [nan, -2.0, -2.0]), 0, 0, nan)
    check(tf.math.xdivy([0.0, 0.0, 1.0], [nan, 0.0, -2.0]), 0, 0, -0.5)
    check(tf.math.divide_no_nan([1.0, nan, 3.0], [0.0, 0.0, 2.0]), 0, 0, 1.5)
    check(tf.math.multiply_no_nan([inf, nan, 3.0], [0.0, 0.0, 2.0]), 0, 0, 6)
    check(tf.math.reciprocal_no_nan([0.0, 4.0, nan]), 0, 0.25, nan)


def test_kinks() -> None:
    for f, x, slope in (
        (tf.nn.relu6, [0.0, 6.0, 3.0], [0, 0, 1]),
        (tf.nn.leaky_relu, [0.0, -1.0, 1.0], [float(np.float32(0.2))] * 2 + [1]),  # TensorFlow's alpha is a float32
        (lambda t: tf.nn.leaky_relu(t, alpha=1.5), [0.0, -1.0, 1.0], [1.5, 1.5, 1]),
        (tf.nn.elu, [0.0, 1.0], [1, 1]),
        (tf.nn.selu, [0.0], [1.0507009873554805]),
        (lambda t: tf.nn.crelu(t), [-1.0, 0.0, 2.0], [-1, 0, 1]),
        (tf.nn.softsign, [0.0], [1]),
    ):
        np.testing.assert_allclose(derivative(f, x), slope, rtol=1e-15)
    for f in (tf.nn.relu6, tf.nn.leaky_relu, tf.nn.elu, tf.nn.selu, tf.nn.softsign):
        assert derivative(f, [0.0], order=2).item() == 0


def test_products_with_zero() -> None:
    x, y = tf.constant([0.0, 1.0, 0.0]), tf.constant([0.0, 0.0, 2.0])
    for f, by_x, by_y in (
        (tf.math.xlogy, [0, -inf, 0], [0, inf, 0]),
        (tf.math.xdivy, [0, inf, 0], [0, -inf, 0]),
        (tf.math.divide_no_nan, [0, 0, 0.5], [0, 0, 0]),
        (tf.math.multiply_no_nan, [0, 0, 2], [0, 1, 0]),
    ):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = f(x, y)
        found = tape.gradient(z, [x, y])
        np.testing.assert_array_equal(found[0].numpy(), np.array(by_x, np.float32))
        np.testing.assert_array_equal(found[1].numpy(), np.array(by_y, np.float32))


# -- dtypes ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["erf", "lgamma", "digamma", "bessel_i0e", "gelu", "silu", "selu", "elu", "relu6", "softsign"]
)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_low_precision_is_rounded_from_float32(name: str, dtype: Any) -> None:
    x = np.array([0.3, 1.2, 2.6], dtype)
    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = function(name)(tensor)
    slope = tape.gradient(y, tensor)
    assert y.dtype == tensor.dtype
    assert slope.dtype == tensor.dtype
    want = function(name)(tf.constant(x.astype(np.float32))).numpy()
    np.testing.assert_allclose(y.numpy().astype(np.float32), want, rtol=float(ml_dtypes.finfo(dtype).eps))


@pytest.mark.parametrize("compiled", [False, True])
def test_sigmoid_of_large_complex_numbers(compiled: bool) -> None:
    if compiled:
        pytest.importorskip("jax")
    z = [-1000 + 3j, 1000 - 2j, -90 + 1j, complex(-math.inf, 1), complex(math.inf, 0), 3j, 0.5 - 1j]
    expected = [0, 1, 0, 0, 1, 0.5 + 7.05071j, 0.6562104 - 0.2522504j]
    for dtype in (tf.complex64, tf.complex128):
        function = tf.function(tf.sigmoid) if compiled else tf.sigmoid
        np.testing.assert_allclose(function(tf.constant(z, dtype)), expected, atol=1e-5)
    x = tf.constant(z)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sigmoid(x)
    assert np.isfinite(tape.gradient(y, x)).all()


def test_complex_numbers() -> None:
    z = tf.constant([1 + 2j, 0j, -1j], tf.complex128)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.math.xlogy(z, z)
    # The conjugate of log(z) + 1, as of any holomorphic function; TensorFlow forgets to conjugate here.
    np.testing.assert_allclose(tape.gradient(y, z).numpy(), [1.80471896 - 1.10714872j, 0, 1 + 1.57079633j], rtol=1e-8)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.math.squared_difference(z, 1j * z + 1)
    np.testing.assert_allclose(y.numpy(), [5, 1, 5])
    np.testing.assert_allclose(tape.gradient(y, z).numpy(), [2 + 6j, -2 - 2j, -2 - 6j])
    assert tf.nn.silu(z).dtype == tf.complex128


def test_integers() -> None:
    assert tf.nn.relu6(tf.constant([-1, 3, 9])).numpy().tolist() == [0, 3, 6]
    assert tf.nn.crelu(tf.constant([-1, 3])).numpy().tolist() == [0, 3, 1, 0]
    assert tf.nn.leaky_relu(tf.constant([-1, 2])).dtype == tf.float32
    assert tf.math.divide_no_nan(3, 2).dtype == tf.float64
    big = 2**62 + 1
    assert tf.truncatediv(tf.constant([big, -7], tf.int64), tf.constant([1, 2], tf.int64)).numpy().tolist() == [big, -3]


def test_bits() -> None:
    def of(values: list[int], dtype: Any = tf.int8) -> Any:
        return tf.constant(values, dtype)

    assert tf.bitwise.left_shift(of([-1, 5, 5, 1]), of([1, 0, 9, -1])).numpy().tolist() == [-2, 5, -128, 1]
    assert tf.bitwise.right_shift(of([-8, 5, 5, -1]), of([1, 0, 9, -1])).numpy().tolist() == [-4, 5, 0, -1]
    assert tf.bitwise.right_shift(of([200], tf.uint8), of([1], tf.uint8)).numpy().tolist() == [100]
    assert tf.bitwise.invert(of([1, 2], tf.uint8)).numpy().tolist() == [254, 253]
    assert tf.bitwise.bitwise_xor(5, 3).numpy() == 6
    for call in (lambda: tf.bitwise.bitwise_and([True], [False]), lambda: tf.bitwise.invert([1.0])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the list of allowed values"):
            call()


# -- bad input ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["erf", "erfinv", "lgamma", "digamma", "ndtri", "bessel_i0", "spence", "elu", "softsign"]
)
@pytest.mark.parametrize("dtype", [tf.int32, tf.complex64])
def test_dtypes_that_are_refused(name: str, dtype: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in the list of allowed values"):
        function(name)(tf.constant([1], dtype))


def test_calls_that_are_refused() -> None:
    refused = tf.errors.InvalidArgumentError
    with pytest.raises(ValueError, match="floating point"):
        tf.nn.gelu(tf.constant([1]))
    with pytest.raises(refused, match="expected to be a float tensor"):
        tf.math.igamma(tf.constant(1.0), tf.constant(1.0, tf.float64))
    with pytest.raises(refused, match="Incompatible shapes"):
        tf.math.igamma(tf.ones([2]), tf.ones([3]))
    with pytest.raises(refused, match=r"Shapes of a and b are inconsistent: \[2\] vs. \[3\]"):
        tf.math.betainc(tf.ones([2]), tf.ones([3]), 0.5)
    with pytest.raises(refused, match="Invalid reduction dimension"):
        tf.math.lbeta(2.0)
    with pytest.raises(tf.errors.InternalError, match=r"should have errors\): Integer division by zero"):
        tf.truncatediv(1, 0)
    with pytest.raises(refused, match="not in the list"):
        tf.math.nextafter(tf.constant(1.0, tf.float16), tf.constant(2.0, tf.float16))
    with pytest.raises(refused, match="not in the list"):
        tf.math.xlogy(1, 2)


def test_names_are_shared() -> None:
    assert tf.math.softsign is tf.nn.softsign
    assert tf.math.bessel_i0 is tf.math.special.bessel_i0
    assert tf.nn.swish is tf.nn.silu
    by_keyword = tf.math.igamma(a=2.0, x=1.0), tf.math.zeta(x=2.0, q=1.0), tf.math.polygamma(a=1.0, x=1.0)
    np.testing.assert_allclose([float(v) for v in by_keyword], [0.26424113, 1.644934, 1.644934], rtol=1e-6)


def test_igamma_far_below_its_order_is_zero():
    assert float(tf.math.igamma(np.float64(900.0), np.float64(1e-148))) == 0.0
    assert float(tf.math.igammac(np.float64(900.0), np.float64(1e-148))) == 1.0
