"""Packages that choose a bandwidth by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nwsim.bench.cases import cases, module
from nwsim.bench.workloads import Sample

_RANGE = (0.003, 0.3)
_GRID = np.geomspace(*_RANGE, 60)
"""Where those search that must be given a range or a grid."""


def statsmodels(data: Sample) -> Callable[[], Any]:
    """Prepare KernelReg with least-squares cross-validation."""
    regression = module("statsmodels.nonparametric.kernel_regression").KernelReg
    return lambda: regression(data.y, data.x, "c", reg_type="lc", bw="cv_ls").bw[:1]


def kernelsmooth(data: Sample) -> Callable[[], Any]:
    """Prepare kernelsmooth's search, over its own range."""
    regression = module("kernelsmooth").NadarayaWatsonRegression

    def run() -> Any:
        model = regression(bandwidth="lscv", diag_cov=True).fit(data.x[:, None], data.y)
        return np.ravel(model.bandwidth * model.L)

    return run


def hessband_analytic(data: Sample) -> Callable[[], Any]:
    """Prepare hessband's default, five folds and analytic derivatives."""
    select = module("hessband").select_nw_bandwidth
    return lambda: np.array([select(data.x, data.y, h_bounds=_RANGE)])


def hessband_golden(data: Sample) -> Callable[[], Any]:
    """Prepare hessband's golden section with as many folds as points."""
    select = module("hessband").select_nw_bandwidth
    options = {"method": "golden", "folds": data.x.size, "h_bounds": _RANGE}
    return lambda: np.array([select(data.x, data.y, **options)])


def kerneljax(data: Sample) -> Callable[[], Any]:
    """Prepare kerneljax's least-squares cross-validation, in float64."""
    jax = module("jax")
    jax.config.update("jax_enable_x64", True)
    package = module("kerneljax")
    x, y = jax.numpy.asarray(data.x), jax.numpy.asarray(data.y)
    return lambda: np.asarray(package.local_poly(x, y, "cv_ls", degree=0).bandwidth.h)


def fastlpr(data: Sample) -> Callable[[], Any]:
    """Prepare fastlpr's generalised cross-validation over a grid of bandwidths."""
    package = module("fastlpr")
    deviation = data.x.std(ddof=1)
    bandwidths = (_GRID / deviation)[:, None]
    options = {"order": 0, "N": 4096, "dstd": 0}

    def run() -> Any:
        package.clear_fastlpr_caches()
        fit = package.cv_fastlpr(data.x[:, None], data.y, h=bandwidths, options=options)
        return np.ravel(fit.h)[:1] * deviation

    return run


def skfda(data: Sample) -> Callable[[], Any]:
    """Prepare scikit-fda's leave-one-out scores over a grid of bandwidths."""
    package = module("skfda")
    hat_matrix = module("skfda.misc.hat_matrix").NadarayaWatsonHatMatrix
    smoother = module("skfda.preprocessing.smoothing").KernelSmoother
    validation = module("skfda.preprocessing.smoothing.validation")

    def run() -> Any:
        order = np.argsort(data.x)
        curve = package.FDataGrid(data_matrix=data.y[order], grid_points=data.x[order])
        search = validation.SmoothingParameterSearch(
            smoother(kernel_estimator=hat_matrix()),
            _GRID,
            param_name="kernel_estimator__bandwidth",
            scoring=validation.LinearSmootherLeaveOneOutScorer(),
        )
        search.fit(curve)
        return np.array([search.best_params_["kernel_estimator__bandwidth"]])

    return run


_SEARCH: dict[str, Any] = {"kind": "search", "accuracy": "rough"}

CASES = (
    *cases("W5", "statsmodels cv_ls", statsmodels, needs="statsmodels", slow="W5", **_SEARCH),
    *cases("W5", "kernelsmooth lscv", kernelsmooth, needs="kernelsmooth", **_SEARCH),
    *cases("W5", "hessband, 5 folds", hessband_analytic, needs="hessband", **_SEARCH),
    *cases("W5", "hessband, golden", hessband_golden, needs="hessband", slow="W5", **_SEARCH),
    *cases("W5", "kerneljax cv_ls", kerneljax, needs="kerneljax jax", slow="W5", **_SEARCH),
    *cases("W5", "fastlpr GCV", fastlpr, needs="fastlpr", **_SEARCH),
    *cases("W5", "scikit-fda LOO", skfda, needs="skfda", slow="W5", **_SEARCH),
)
