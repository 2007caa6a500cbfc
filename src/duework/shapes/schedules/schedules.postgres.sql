-- Where PostgreSQL needs another text than schedules.sql, and why.

-- name: create
-- Differs: many rows in one round trip are arrays.
insert into duework_schedule (
       key, task, queue, priority, payload, kind, rule, start, tz, missed, missed_limit,
       overlap, idle, state, slot, due, job, last_slot, last_at, last_job, last_outcome, fires,
       idles, skips, declared, decorated, edited, owner, why, error, created, ends, count,
       counted)
select e.key, e.task, e.queue, e.priority, e.payload, e.kind, e.rule, e.start, e.tz, e.missed,
       e.missed_limit, e.overlap, e.idle, e.state, e.slot, e.due, e.job, e.last_slot, e.last_at,
       e.last_job, e.last_outcome, e.fires, e.idles, e.skips, e.declared, e.decorated, e.edited,
       e.owner, e.why, e.error, e.created, e.ends, e.count, e.counted
from unnest(:key::text[], :task::text[], :queue::text[], :priority::bigint[], :payload::text[],
            :kind::text[], :rule::text[], :start::bigint[], :tz::text[], :missed::text[],
            :missed_limit::bigint[], :overlap::text[], :idle::bigint[], :state::text[],
            :slot::bigint[], :due::bigint[], :job::bigint[], :last_slot::bigint[],
            :last_at::bigint[], :last_job::bigint[], :last_outcome::text[], :fires::bigint[],
            :idles::bigint[], :skips::bigint[], :declared::text[], :decorated::bigint[],
            :edited::bigint[], :owner::text[], :why::text[], :error::text[], :created::bigint[],
            :ends::bigint[], :count::bigint[], :counted::bigint[])
     as e (key, task, queue, priority, payload, kind, rule, start, tz, missed, missed_limit,
           overlap, idle, state, slot, due, job, last_slot, last_at, last_job, last_outcome,
           fires, idles, skips, declared, decorated, edited, owner, why, error, created, ends,
           count, counted)
on conflict (key) do nothing

-- name: fired
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
