-- Where PostgreSQL needs another text than batches.sql, and why.

