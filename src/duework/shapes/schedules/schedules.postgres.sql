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

-- name: move
-- Differs: many rows in one round trip are arrays.
update duework_job j
set due = e.due, at = e.at
from unnest(:due::bigint[], :at::bigint[], :id::bigint[]) as e (due, at, id)
where j.id = e.id and j.state = 'open' and j.worker is null

-- name: fired
-- Differs: many rows in one round trip are arrays.
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum)
select e.id, e.lane, e.task, e.key, e.due, e.at, 0, e.payload, e.checksum
from unnest(:id::bigint[], :lane::bigint[], :task::text[], :key::text[], :due::bigint[],
            :at::bigint[], :payload::text[], :checksum::bigint[])
     as e (id, lane, task, key, due, at, payload, checksum)
on conflict (task, key) where state = 'open' and key is not null do nothing
