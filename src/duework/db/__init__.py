"""How we talk to a database. Knows nothing about jobs."""
