"""Smoothers: kernels, engines, bandwidths, estimators."""

from nwsim.smoothing.bandwidths import BandwidthSelection
from nwsim.smoothing.engines import ENGINES
from nwsim.smoothing.estimators import LocalLinear, NadarayaWatson, QuerySummary
from nwsim.smoothing.kernels import Kernel, get_kernel, kernel_names, register_kernel
from nwsim.smoothing.multihead import MultiHeadNadarayaWatson
from nwsim.smoothing.sums import MomentSums

__all__ = [
    "ENGINES",
    "BandwidthSelection",
    "Kernel",
    "LocalLinear",
    "MomentSums",
    "MultiHeadNadarayaWatson",
    "NadarayaWatson",
    "QuerySummary",
    "get_kernel",
    "kernel_names",
    "register_kernel",
]
