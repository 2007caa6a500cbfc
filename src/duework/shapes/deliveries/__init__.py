"""Deliveries: one body, several channels, only what failed again."""
