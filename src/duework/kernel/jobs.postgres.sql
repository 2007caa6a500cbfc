-- Where PostgreSQL needs another text than jobs.sql, and why.

-- name: insert
-- Differs: many rows in one round trip are arrays.
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum, expires, serial,
                         after, owner, batch)
select * from unnest(:id::bigint[], :lane::bigint[], :task::text[], :key::text[], :due::bigint[],
                     :at::bigint[], :linked::smallint[], :payload::text[], :checksum::bigint[],
                     :expires::bigint[], :serial::text[], :after::bigint[], :owner::text[],
                     :batch::bigint[])

-- name: insert_keys
-- Differs: many rows in one round trip are arrays.
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum, expires, serial,
                         after, owner, batch)
select * from unnest(:id::bigint[], :lane::bigint[], :task::text[], :key::text[], :due::bigint[],
                     :at::bigint[], :linked::smallint[], :payload::text[], :checksum::bigint[],
                     :expires::bigint[], :serial::text[], :after::bigint[], :owner::text[],
                     :batch::bigint[])
on conflict (task, key) where state = 'open' and key is not null do nothing

-- name: insert_alike
-- Differs: arrays in JSON are read and counted by other functions.
insert into duework_job (id, lane, task, due, at, payload, checksum, expires, batch)
select :first::bigint + place - 1, :lane::bigint, :task::text, :at::bigint, :at::bigint,
       substr(value, 11), substr(value, 1, 10)::bigint, :expires::bigint, :batch::bigint
from json_array_elements_text(:rows::json) with ordinality as r (value, place)

-- name: settle_alike
-- Differs: a null has no type by itself.
update duework_job
set state = 'done', due = :due, worker = null, result = :result::text, error = null,
    settled = :settled
where id = any(:ids) and fence = :fence and coalesce(worker, 0) = :worker
  and linked = 0 and state = 'open' and batch is not distinct from :batch::bigint

-- name: lock_lane_births
-- Differs: two processes may do so at once. A lane that is not committed cannot be paused or resumed
-- by others, nor does it know of their pauses. A statement of its own, since the next one must see
-- what was committed while this one waited.
select pg_advisory_xact_lock(748329002)

-- name: lock_serials
-- Differs: enqueue and settle of one serial value must not overlap. Sorted by the caller.
select pg_advisory_xact_lock(hashtextextended(value, 748329003))
from unnest(:serials::text[]) with ordinality as t (value, place)
order by place

-- name: lock_limits
-- Differs: two claims may run at once. By the limited names and not by their lanes, which may be very many.
select pg_advisory_xact_lock(hashtextextended(value, 748329004))
from unnest(:limits::text[]) with ordinality as t (value, place)
order by place

-- name: extend
-- Differs: many rows in one round trip are arrays.
update duework_job j
set due = e.until
from unnest(:until::bigint[], :id::bigint[], :fence::bigint[], :worker::bigint[])
     as e (until, id, fence, worker)
where j.id = e.id and j.fence = e.fence and j.worker = e.worker

-- name: settle_done
-- Differs: many rows in one round trip are arrays.
update duework_job j
set state = 'done', due = e.due, worker = null, result = e.result, error = null,
    settled = e.settled
from unnest(:due::bigint[], :result::text[], :settled::bigint[], :id::bigint[], :fence::bigint[],
            :worker::bigint[], :batch::bigint[])
     as e (due, result, settled, id, fence, worker, batch)
where j.id = e.id and j.fence = e.fence and j.worker = e.worker and j.linked = 0
  and j.state = 'open' and j.batch is not distinct from e.batch

-- name: settle_gone
-- Differs: many rows in one round trip are arrays.
delete from duework_job j
using unnest(:id::bigint[], :fence::bigint[], :worker::bigint[]) as e (id, fence, worker)
where j.id = e.id and j.fence = e.fence and j.worker = e.worker and j.linked = 0
  and j.state = 'open'

-- name: rewrite
-- Differs: many rows in one round trip are arrays.
update duework_job j
set state = e.state, due = e.due, worker = null, lane = e.lane, failures = e.failures,
    crashes = e.crashes, result = e.result, error = e.error, payload = e.payload,
    checksum = e.checksum, again = e.again, cancel_reason = null, progress = e.progress, settled = e.settled
from unnest(:state::text[], :due::bigint[], :lane::bigint[], :failures::bigint[],
            :crashes::bigint[], :result::text[], :error::text[], :payload::text[],
            :checksum::bigint[], :again::text[], :progress::text[], :settled::bigint[],
            :id::bigint[])
     as e (state, due, lane, failures, crashes, result, error, payload, checksum, again,
           progress, settled, id)
where j.id = e.id

-- name: delete
-- Differs: many rows in one round trip are arrays.
delete from duework_job where id = any(:id::bigint[])

-- name: attempt
-- Differs: many rows in one round trip are arrays.
insert into duework_attempt (job, fence, outcome, worker, started, ended, error)
select * from unnest(:job::bigint[], :fence::bigint[], :outcome::text[], :worker::bigint[],
                     :started::bigint[], :ended::bigint[], :error::text[])
on conflict (job, fence) do nothing

-- name: progress
-- Differs: many rows in one round trip are arrays.
update duework_job j
set progress = e.progress
from unnest(:progress::text[], :id::bigint[], :fence::bigint[], :worker::bigint[])
     as e (progress, id, fence, worker)
where j.id = e.id and j.fence = e.fence and j.worker = e.worker

-- name: dead_rows
-- Differs: old versions of rows stay until no snapshot can see them.
select pg_stat_get_dead_tuples('duework_job'::regclass)

-- name: lanes
-- Differs: gets the first job, to start there. With a limit, so that no planner reads all
-- lanes instead of these.
with recursive busy (lane) as (
    select cast(0 as bigint)
    union all
    select (select min(j.lane) from duework_job j
            where j.lane > busy.lane and j.state = 'open' and j.worker is null)
    from busy where busy.lane is not null
)
select l.id, l.queue, l.task, l.priority, l.tier, l.share, l.alone, l.due, h.due, h.id
from busy
join lateral (select * from duework_lane where id = busy.lane limit 1) l on true
join lateral (
    select j.due, j.id from duework_job j
    where j.lane = l.id and j.state = 'open' and j.worker is null
    order by j.due, j.id
    limit 1) h on true

-- name: lanes_above
-- Differs: starts at the place where the first job was last seen, since entries of the index stay
-- while a transaction has an old snapshot, and to find the next lane would be to walk through them.
select l.id, l.queue, l.task, l.priority, l.tier, l.share, l.alone, l.due, h.due, h.id
from duework_lane l
left join unnest(:floor_lanes::bigint[], :floor_dues::bigint[], :floor_ids::bigint[])
     as f (lane, due, id) on f.lane = l.id
join lateral (
    select j.due, j.id from duework_job j
    where j.lane = l.id and j.state = 'open' and j.worker is null
      and (j.due, j.id) >= (coalesce(f.due, 0), coalesce(f.id, 0))
    order by j.due, j.id
    limit 1) h on true

-- name: claim
-- Differs: a subquery with a limit may be run more than once by a join, and lock more than it should;
-- materialized it runs once, and skips what others are claiming at this moment. It starts with the
-- lane's first job, as `lanes` does and for the same reason.
with taken as materialized (
    select id from duework_job
    where lane = :lane and state = 'open' and worker is null and due <= :now
      and (due, id) >= (:head, :head_id)
    order by due, id
    limit :wanted
    for update skip locked
)
update duework_job j
set due = :until, worker = :worker, fence = greatest(j.fence, :floor) + 1,
    slot_fence = case when j.slot_fence = j.fence then greatest(j.fence, :floor) else j.slot_fence end
from taken
where j.id = taken.id
returning j.id, j.fence, j.lane, j.task, j.payload, j.checksum, j.at, j.failures, j.crashes, j.key,
          j.expires, j.serial, j.owner, j.batch, j.slot, j.slot_fence
