-- Where PostgreSQL needs another text than moves.sql, and why.

-- name: move
-- Differs: many rows in one round trip are arrays.
update duework_job j
set due = e.due, at = e.at, failures = 0, error = null
from unnest(:due::bigint[], :at::bigint[], :id::bigint[]) as e (due, at, id)
where j.id = e.id and j.state = 'open' and j.worker is null
