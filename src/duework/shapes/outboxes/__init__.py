"""Outboxes: submit, poll and account for messages of another system."""
