"""Paces, as users hold them."""
