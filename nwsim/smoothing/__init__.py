"""Smoothers: kernels, engines, bandwidths, estimators."""

from nwsim.smoothing.bandwidths import BandwidthSelection
from nwsim.smoothing.engines import ENGINES
from nwsim.smoothing.estimators import LocalLinear, NadarayaWatson, QuerySummary
from nwsim.smoothing.kernels import Kernel, get_kernel, kernel_names, register_kernel
from nwsim.smoothing.multihead import MultiHeadNadarayaWatson
from nwsim.smoothing.search import OracleBandwidth, oracle_bandwidth
from nwsim.smoothing.sums import MomentSums

__all__ = [
    "ENGINES",
    "BandwidthSelection",
    "Kernel",
    "LocalLinear",
    "MomentSums",
    "MultiHeadNadarayaWatson",
    "NadarayaWatson",
    "OracleBandwidth",
    "QuerySummary",
    "get_kernel",
    "kernel_names",
    "oracle_bandwidth",
    "register_kernel",
]
