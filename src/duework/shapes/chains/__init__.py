"""Chains: pages, one after the other, each a job."""
