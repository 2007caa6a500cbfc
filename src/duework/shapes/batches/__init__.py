"""Batches, as users hold them."""
