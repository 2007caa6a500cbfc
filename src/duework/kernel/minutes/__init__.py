"""Counters of what workers did, by minute."""
