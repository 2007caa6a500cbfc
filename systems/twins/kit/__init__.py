"""What every twin is made of: an ASGI application, faults, limits, a ledger, a log and a clock."""
