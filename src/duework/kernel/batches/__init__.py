"""Batches: jobs that are made and counted together."""
