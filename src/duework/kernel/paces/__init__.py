"""Paces: what admits jobs, as rows that a claim locks."""
