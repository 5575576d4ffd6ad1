"""Families of regression functions."""
