-- Where PostgreSQL needs another text than schedules.sql, and why.

-- name: turned
-- Differs: many rows in one round trip are arrays.
update duework_schedule s
set slot = e.slot, due = e.due, job = e.job, last_slot = e.last_slot, last_at = e.last_at,
    last_job = e.last_job, last_outcome = e.last_outcome, fires = e.fires, idles = e.idles,
    skips = e.skips, state = e.state, error = e.error, counted = e.counted
from unnest(:slot::bigint[], :due::bigint[], :job::bigint[], :last_slot::bigint[],
            :last_at::bigint[], :last_job::bigint[], :last_outcome::text[], :fires::bigint[],
            :idles::bigint[], :skips::bigint[], :state::text[], :error::text[],
            :counted::bigint[], :key::text[])
     as e (slot, due, job, last_slot, last_at, last_job, last_outcome, fires, idles, skips, state,
           error, counted, key)
where s.key = e.key
