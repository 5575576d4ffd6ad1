"""Attention as it is computed, and as kernel regression, transport and a network in training."""

from nwsim.attention.bandwidths import (
    BANDWIDTH_KINDS,
    LearnedBandwidth,
    abramson_scales,
    knn_bandwidths,
    learn_bandwidth,
)
from nwsim.attention.families import WEIGHT_FAMILIES, WeightFamily, weight_family
from nwsim.attention.gaussian import gaussian_attention, nadaraya_watson_attention
from nwsim.attention.information import (
    Information,
    bottleneck,
    information_at,
    mutual_information,
    row_entropy,
)
from nwsim.attention.multihead import multi_head_attention
from nwsim.attention.schedules import temperature_at
from nwsim.attention.softmax import softmax_attention
from nwsim.attention.sparse import TopKAttention, top_k_attention, top_k_mask
from nwsim.attention.tangent import AttentionNetwork, random_network
from nwsim.attention.tangent_training import kernel_descent, train_attention
from nwsim.attention.transport import Transport, sinkhorn_attention, transport_objective
from nwsim.attention.weights import attention_weights, gaussian_weights, key_norm_log_prior

__all__ = [
    "BANDWIDTH_KINDS",
    "WEIGHT_FAMILIES",
    "AttentionNetwork",
    "Information",
    "LearnedBandwidth",
    "TopKAttention",
    "Transport",
    "WeightFamily",
    "abramson_scales",
    "attention_weights",
    "bottleneck",
    "gaussian_attention",
    "gaussian_weights",
    "information_at",
    "kernel_descent",
    "key_norm_log_prior",
    "knn_bandwidths",
    "learn_bandwidth",
    "multi_head_attention",
    "mutual_information",
    "nadaraya_watson_attention",
    "random_network",
    "row_entropy",
    "sinkhorn_attention",
    "softmax_attention",
    "temperature_at",
    "top_k_attention",
    "top_k_mask",
    "train_attention",
    "transport_objective",
    "weight_family",
]
