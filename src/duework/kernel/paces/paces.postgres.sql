-- Where PostgreSQL needs another text than paces.sql, and why.

-- name: new_pace
-- Differs: many rows in one round trip are arrays.
insert into duework_pace (name, kind, changed)
select * from unnest(:name::text[], :kind::text[], :now::bigint[])
on conflict (name) do nothing

-- name: save_pace
-- Differs: many rows in one round trip are arrays.
update duework_pace p
set state = e.state, used = e.used, most = e.most, blocked = e.blocked, idle = e.idle,
    changed = e.changed
from unnest(:state::text[], :used::bigint[], :most::bigint[], :blocked::bigint[], :idle::bigint[],
            :now::bigint[], :name::text[]) as e (state, used, most, blocked, idle, changed, name)
where p.name = e.name

-- name: lane_waits
-- Differs: many rows in one round trip are arrays.
update duework_lane l set due = e.due, pace = e.pace
from unnest(:due::bigint[], :pace::text[], :id::bigint[], :forever::bigint[])
     as e (due, pace, id, forever)
where l.id = e.id and l.due < e.forever

-- name: promise
-- Differs: many rows in one round trip are arrays.
update duework_job j
set due = e.slot, worker = null, slot = e.slot, slot_fence = e.fence
from unnest(:slot::bigint[], :fence::bigint[], :id::bigint[]) as e (slot, fence, id)
where j.id = e.id and j.fence = e.fence
