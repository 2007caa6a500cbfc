"""The process that claims, runs and settles jobs."""
