-- The invariants of paces. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_paces
select count(*) from duework_pace

-- name: of_paced_lanes
select count(*) from duework_lane where pace is not null

-- name: of_jobs
select count(*) from duework_job

-- name: pace_within_limit
-- Of: paces
-- Says: a pace admits no more in a window than its limit
-- Nothing negative, and never more taken in a window than it admits.
select name from duework_pace
where used < 0 or used > most or blocked < 0
limit :bound

-- name: lane_waits_for_pace
-- Of: paced_lanes
-- Says: a lane waits for a pace that is there
select l.id
from duework_lane l
left join duework_pace p on p.name = l.pace
where l.pace is not null and p.name is null
limit :bound

-- name: slot_is_promised
-- Of: jobs
-- Says: a job's slot was promised by one of its claims
-- A time of its own was given to it by one of its claims.
select id from duework_job
where (slot is null) <> (slot_fence is null) or slot_fence > fence or slot_fence < 1
limit :bound
