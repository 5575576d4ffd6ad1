"""Adapters of other packages, one file a family; each names its cases in ``CASES``."""
