"""Kernel records: stated constants against quadrature, over the registry."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from nwsim.exceptions import ParameterError
from nwsim.smoothing import Kernel, get_kernel, kernel_names, register_kernel
from nwsim.smoothing.kernels import _registry, sphere_area


@pytest.fixture(params=kernel_names())
def kernel(request):
    return get_kernel(request.param)


def _integral(kernel, dim, degree, times=1):
    """Integrate r^degree K(r)^times over R^dim by quadrature."""
    top = 1.0 if kernel.support == 1.0 else {"gaussian": 12.0, "laplace": 60.0}[kernel.family]
    value, _ = quad(
        lambda r: r ** (dim - 1 + degree) * float(kernel(r, dim)) ** times,
        0.0,
        top,
        epsabs=1e-11,
        limit=200,
    )
    return sphere_area(dim) * value


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_moment_constants_against_quadrature(kernel, dim):
    mass = _integral(kernel, dim, 0)
    assert kernel.mass(dim) == pytest.approx(mass, rel=1e-9)
    # mu2 of order 4 is zero up to the rounding of what cancels.
    assert kernel.mu2(dim) == pytest.approx(_integral(kernel, dim, 2) / mass / dim, abs=1e-9)
    squared = _integral(kernel, dim, 0, times=2)
    assert kernel.roughness(dim) == pytest.approx(squared / mass**2, rel=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_stated_order(kernel, dim):
    second = abs(kernel.mu2(dim))
    assert (second < 1e-12) == (kernel.order == 4)
    assert abs(kernel.moment(4, dim)) > 1e-3


def test_symmetric_and_zero_outside_support(kernel):
    u = np.linspace(0.0, 1.5, 301)
    np.testing.assert_array_equal(kernel(u), kernel(-u))
    if kernel.support == 1.0:
        assert not np.any(kernel(u[u > 1.0]))


def test_sign(kernel):
    u = np.linspace(0.0, 6.0, 1001)
    assert (kernel(u).min() < 0.0) == kernel.signed


def test_known_constants():
    # Wand & Jones (1995), table 2.1 and section 2.8.
    assert get_kernel("epanechnikov").mu2() == pytest.approx(1 / 5)
    assert get_kernel("epanechnikov").roughness() == pytest.approx(3 / 5)
    assert get_kernel("gaussian").roughness() == pytest.approx(1 / (2 * np.sqrt(np.pi)))
    assert get_kernel("biweight").roughness() == pytest.approx(5 / 7)
    assert get_kernel("gaussian4").roughness() == pytest.approx(27 / (32 * np.sqrt(np.pi)))


def test_cosine_is_the_cosine():
    u = np.linspace(0.0, 1.0, 1001)
    np.testing.assert_allclose(get_kernel("cosine")(u), np.cos(np.pi * u / 2), atol=4e-16)
    assert get_kernel("cosine")(1.0) == 0.0


def test_unknown_name_lists_the_known():
    with pytest.raises(ParameterError, match=r"gaussian, epanechnikov.*got 'gausian'"):
        get_kernel("gausian")


def test_registered_kernel_is_served_and_name_is_taken_once():
    from nwsim import NadarayaWatson

    mine = Kernel("quartic_test", "mine", "compact", "a test", exponent=2)
    try:
        register_kernel(mine)
        fitted = NadarayaWatson(0.5, "quartic_test").fit([0.0, 0.4], [0.0, 1.0])
        biweight = NadarayaWatson(0.5, "biweight").fit([0.0, 0.4], [0.0, 1.0])
        assert fitted.predict([0.1]) == biweight.predict([0.1])
        with pytest.raises(ParameterError, match="registered already"):
            register_kernel(Kernel("quartic_test", "other", "compact", "a test"))
    finally:
        _registry.pop("quartic_test", None)


@pytest.mark.parametrize(
    ("field", "value"),
    [("family", "cubic"), ("power", 4), ("exponent", 7), ("order", 3), ("name", "Not a name")],
)
def test_bad_record_is_refused(field, value):
    record = {"name": "x", "label": "x", "family": "compact", "source": "a test", field: value}
    with pytest.raises(ParameterError, match=field):
        Kernel(**record)
