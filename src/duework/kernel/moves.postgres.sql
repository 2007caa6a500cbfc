-- Where PostgreSQL needs another text than moves.sql, and why.

-- name: move
-- Differs: many rows in one round trip are arrays. Found by their ids, whatever is known of the table.
update duework_job j
set due = e.due, at = e.at, failures = 0, error = null
from unnest(:due::bigint[], :at::bigint[], :id::bigint[]) as e (due, at, id)
where j.id = e.id and j.id = any(:id::bigint[]) and j.state = 'open' and j.worker is null
