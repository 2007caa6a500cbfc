"""Durable background work: every piece of work is a row with a due time."""
