"""Packages for kernel smoothing: of statistics, of functional data, of fast sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nwsim.bench.cases import Prepare, cases, columns, module
from nwsim.bench.workloads import Sample


def _deviations(data: Sample) -> Any:
    """Return the sample's standard deviations, the unit of some packages' bandwidths."""
    return columns(data.x).std(axis=0, ddof=1)


def statsmodels(data: Sample) -> Callable[[], Any]:
    """Prepare KernelReg; its ``fit`` computes marginal effects too, which nothing avoids."""
    regression = module("statsmodels.nonparametric.kernel_regression").KernelReg
    dim = columns(data.x).shape[1]
    options = {"var_type": "c" * dim, "reg_type": "lc", "bw": [data.h] * dim}
    return lambda: regression(data.y, data.x, **options).fit(data.q)[0]


def skfda_smoother(data: Sample) -> Callable[[], Any]:
    """Prepare scikit-fda's smoother of a curve on a grid, which wants sorted points."""
    skfda = module("skfda")
    hat_matrix = module("skfda.misc.hat_matrix").NadarayaWatsonHatMatrix
    smoother = module("skfda.preprocessing.smoothing").KernelSmoother

    def run() -> Any:
        order = np.argsort(data.x)
        curve = skfda.FDataGrid(
            data_matrix=data.y[order], grid_points=data.x[order], domain_range=(0.0, 1.0)
        )
        model = smoother(hat_matrix(bandwidth=data.h), output_points=data.q)
        return model.fit_transform(curve).data_matrix.ravel()

    return run


def skfda_matrix(kernel: str) -> Prepare:
    """Return a case of scikit-fda's hat matrix, of its kernel of that name."""

    def prepare(data: Sample) -> Callable[[], Any]:
        cdist = module("scipy.spatial.distance").cdist
        function = getattr(module("skfda.misc.kernels"), kernel)
        hat = module("skfda.misc.hat_matrix").NadarayaWatsonHatMatrix(
            bandwidth=data.h, kernel=function
        )
        x, q = columns(data.x), columns(data.q)
        return lambda: hat(delta_x=cdist(q, x), X_train=x, X=q, y_train=data.y)

    return prepare


def fastlpr(nodes: int, kernel: str = "gaussian") -> Prepare:
    """Return a case of fastlpr on a grid of so many nodes an axis."""

    def prepare(data: Sample) -> Callable[[], Any]:
        package = module("fastlpr")
        x, q = columns(data.x), columns(data.q)
        # It scales each coordinate by its standard deviation with divisor n.
        bandwidths = [list(data.h / x.std(axis=0, ddof=0))]
        options = {"order": 0, "calc_dof": False, "N": nodes, "accuracy": 8, "kernel_type": kernel}

        def run() -> Any:
            package.clear_fastlpr_caches()  # else the second call would only look up the first
            fit = package.cv_fastlpr(x, data.y, h=bandwidths, options=options)
            return np.asarray(package.fastlpr_predict(fit, q)).ravel()

        return run

    return prepare


def kernelsmooth(data: Sample) -> Callable[[], Any]:
    """Prepare kernelsmooth, one deviation a coordinate."""
    regression = module("kernelsmooth").NadarayaWatsonRegression
    x, q = columns(data.x), columns(data.q)
    bandwidth = data.h / _deviations(data)
    return lambda: regression(bandwidth=bandwidth, diag_cov=True).fit(x, data.y).predict(q)


def locpoly(refinement: int) -> Prepare:
    """Return a case of KernSmooth's locpoly on a grid so many times finer than the queries."""

    def prepare(data: Sample) -> Callable[[], Any]:
        function = module("r2py_kernsmooth").locpoly
        size = (len(data.q) - 1) * refinement + 1
        options = {"degree": 0, "bandwidth": data.h, "gridsize": size, "range_x": (0.0, 1.0)}
        return lambda: function(data.x, data.y, **options)["y"][::refinement]

    return prepare


def hessband(kernel: str) -> Prepare:
    """Return a case of hessband's prediction."""

    def prepare(data: Sample) -> Callable[[], Any]:
        predict = module("hessband").nw_predict
        return lambda: predict(data.x, data.y, data.q, data.h, kernel)

    return prepare


def rgram(kernel: str) -> Prepare:
    """Return a case of rgram, whose compact windows need a sorted sample."""

    def prepare(data: Sample) -> Callable[[], Any]:
        smoother = module("rgram").KernelSmoother
        options = {"bandwidth": "manual", "bandwidth_value": data.h, "kernel": kernel}

        def run() -> Any:
            order = np.argsort(data.x) if kernel == "epanechnikov" else slice(None)
            return smoother(**options).fit(data.x[order], data.y[order]).predict(data.q)

        return run

    return prepare


def kdepy(data: Sample) -> Callable[[], Any]:
    """Prepare the ratio of two of KDEpy's densities on a grid that holds the queries.

    Its weights must be positive and are normalised: y is shifted and the ratio scaled back.
    """
    density = module("KDEpy").FFTKDE
    size, fine = len(data.q) - 1, 16
    grid = np.linspace(-0.5, 1.5, 2 * size * fine + 1)

    def run() -> Any:
        shift = data.y.min() - 1.0
        weights = data.y - shift
        above = density(bw=data.h, kernel="gaussian").fit(data.x, weights=weights).evaluate(grid)
        below = density(bw=data.h, kernel="gaussian").fit(data.x).evaluate(grid)
        first = size * fine // 2
        return (above / below * weights.mean() + shift)[first : first + size * fine + 1 : fine]

    return run


def kdepy_compact(data: Sample) -> Callable[[], Any]:
    """Prepare the same for the Epanechnikov kernel, interpolated between nodes.

    The package's bandwidth is a standard deviation, h over the square root of five.
    """
    density = module("KDEpy").FFTKDE
    grid = np.linspace(-0.1, 1.1, 2**15)

    def run() -> Any:
        shift = data.y.min() - 1.0
        weights = data.y - shift
        options = {"bw": data.h / 5**0.5, "kernel": "epa"}
        above = density(**options).fit(data.x, weights=weights).evaluate(grid) * weights.mean()
        below = density(**options).fit(data.x).evaluate(grid)
        inside = below > 0.0
        return np.interp(data.q, grid[inside], above[inside] / below[inside] + shift)

    return run


def figtree(tolerance: float) -> Prepare:
    """Return a case of the improved fast Gauss transform, exp(-|x - q|^2 / h^2)."""

    def prepare(data: Sample) -> Callable[[], Any]:
        transform = module("pyfigtree").figtree
        h, ones = data.h * 2**0.5, np.ones(len(data.y))

        def run() -> Any:
            above = transform(data.x, data.q, data.y, h, epsilon=tolerance)
            return above / transform(data.x, data.q, ones, h, epsilon=tolerance)

        return run

    return prepare


def finufft(tolerance: float, *, packed: bool = False) -> Prepare:
    """Return a case composed of two transforms and the kernel's Fourier transform.

    The period leaves 17 bandwidths between images, and frequencies reach to where the
    kernel's transform falls below a hundredth of the tolerance. ``packed`` sends both sums
    as the real and the imaginary part of one, which halves the work.
    """

    def prepare(data: Sample) -> Callable[[], Any]:
        package = module("finufft")

        def run() -> Any:
            unit = 2.0 * np.pi / (1.0 + 17.0 * data.h)
            highest = np.sqrt(-2.0 * np.log(tolerance * 0.01)) / data.h
            half = int(np.ceil(highest / unit)) + 1
            if packed:
                weights = data.y + 1j
            else:
                weights = np.stack([data.y, np.ones_like(data.y)]).astype(np.complex128)
            options = {"eps": tolerance, "nthreads": 1}
            modes = package.nufft1d1((data.x - 0.5) * unit, weights, 2 * half, isign=-1, **options)
            modes *= np.exp(-0.5 * (np.arange(-half, half) * unit * data.h) ** 2)
            sums = package.nufft1d2((data.q - 0.5) * unit, modes, isign=1, **options)
            return sums.real / sums.imag if packed else sums[0].real / sums[1].real

        return run

    return prepare


CASES = (
    *cases(
        "W1 W2 W3",
        "statsmodels KernelReg",
        statsmodels,
        needs="statsmodels",
        part={"W2": 10},
        slow="W2 W3",
    ),
    *cases("W1", "scikit-fda smoother", skfda_smoother, needs="skfda"),
    *cases(
        "W1 W2 W3",
        "scikit-fda hat matrix",
        skfda_matrix("normal"),
        needs="skfda",
        part={"W2": 20},
        slow="W2 W3",
    ),
    *cases(
        "W4",
        "scikit-fda hat matrix",
        skfda_matrix("epanechnikov"),
        needs="skfda",
        part={"W4": 20},
        slow="W4",
    ),
    *cases(
        "W1 W2",
        "fastlpr, 1000 nodes",
        fastlpr(1000),
        needs="fastlpr",
        kind="fast",
        accuracy="rough",
    ),
    *cases(
        "W1 W2",
        "fastlpr, 16k nodes",
        fastlpr(16_384),
        needs="fastlpr",
        kind="fast",
        accuracy="rough",
    ),
    *cases(
        "W3",
        "fastlpr, 64 nodes an axis",
        fastlpr(64),
        needs="fastlpr",
        kind="fast",
        accuracy="rough",
        slow="W3",
    ),
    *cases(
        "W4",
        "fastlpr, 16k nodes",
        fastlpr(16_384, "epanechnikov"),
        needs="fastlpr",
        kind="fast",
        accuracy="rough",
    ),
    *cases(
        "W1 W2 W3",
        "kernelsmooth",
        kernelsmooth,
        needs="kernelsmooth",
        part={"W2": 100},
        slow="W2 W3",
    ),
    *cases(
        "W1 W2",
        "r2py-kernsmooth, 1000 nodes",
        locpoly(1),
        needs="r2py_kernsmooth",
        kind="fast",
        accuracy="rough",
    ),
    *cases(
        "W1 W2",
        "r2py-kernsmooth, 16k nodes",
        locpoly(16),
        needs="r2py_kernsmooth",
        kind="fast",
        accuracy="rough",
    ),
    *cases("W1 W2", "hessband", hessband("gaussian"), needs="hessband", part={"W2": 50}, slow="W2"),
    *cases(
        "W4", "hessband", hessband("epanechnikov"), needs="hessband", part={"W4": 50}, slow="W4"
    ),
    *cases("W1 W2", "rgram", rgram("gaussian"), needs="rgram polars", part={"W2": 50}, slow="W2"),
    *cases(
        "W4",
        "rgram",
        rgram("epanechnikov"),
        needs="rgram polars",
        kind="fast",
        part={"W4": 5000},
        slow="W4",
    ),
    *cases(
        "W1 W2",
        "KDEpy, ratio",
        kdepy,
        needs="KDEpy",
        kind="fast",
        accuracy={"W1": "rough", "W2": "1e-6"},
    ),
    *cases("W4", "KDEpy, ratio", kdepy_compact, needs="KDEpy", kind="fast", accuracy="rough"),
    *cases(
        "W1 W2", "pyfigtree 1e-6", figtree(1e-6), needs="pyfigtree", kind="fast", accuracy="1e-6"
    ),
    *cases(
        "W3",
        "pyfigtree 1e-6",
        figtree(1e-6),
        needs="pyfigtree",
        kind="fast",
        accuracy="1e-6",
        slow="W3",
    ),
    *cases("W1 W2", "pyfigtree 1e-12", figtree(1e-12), needs="pyfigtree", kind="fast"),
    *cases(
        "W1 W2",
        "finufft by hand 1e-6",
        finufft(1e-6),
        needs="finufft",
        kind="fast",
        accuracy="1e-6",
    ),
    *cases("W1 W2", "finufft by hand 1e-12", finufft(1e-12), needs="finufft", kind="fast"),
    *cases(
        "W1 W2",
        "finufft, packed 1e-6",
        finufft(1e-6, packed=True),
        needs="finufft",
        kind="fast",
        accuracy="1e-6",
    ),
    *cases(
        "W1 W2",
        "finufft, packed 1e-12",
        finufft(1e-12, packed=True),
        needs="finufft",
        kind="fast",
    ),
)
