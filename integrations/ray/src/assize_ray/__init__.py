"""Spreads an Assize collection over a Ray cluster."""

__version__ = "0.1.0"
