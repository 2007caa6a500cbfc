"""Webhooks both ways: what providers report, and what tenants are told."""
