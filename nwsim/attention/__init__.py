"""Attention as it is computed: softmax over keys."""

from nwsim.attention.softmax import softmax_attention

__all__ = ["softmax_attention"]
