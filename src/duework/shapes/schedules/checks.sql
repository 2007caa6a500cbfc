-- The invariants of schedules. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_schedules
select count(*) from duework_schedule where state <> 'deleted'

-- name: of_scheduled
select count(*) from duework_job where key like 'schedule:%'

-- name: schedule_is_armed
-- Of: schedules
-- Says: an active schedule has one open job, due when it is
-- The job that fires it is open and its own, and due when it is, unless a worker has had it.
select s.key
from duework_schedule s
left join duework_job j on j.id = s.job and j.state = 'open' and j.owner = 'schedule:' || s.key
where s.state = 'active' and (j.id is null or (j.fence = 0 and j.due <> s.due))
limit :bound

-- name: schedule_rests
-- Of: schedules
-- Says: a schedule has a next slot if and only if it is active
select key from duework_schedule
where (state = 'active') <> (due is not null) or (due is not null and due < slot)
limit :bound

-- name: fire_has_schedule
-- Of: schedules
-- Says: a job that fires belongs to a schedule
-- One that was held may have outlived its schedule, and ends when it is claimed.
select j.id
from duework_job j
left join duework_schedule s on s.job = j.id and j.owner = 'schedule:' || s.key
where j.owner like 'schedule:%' and j.state = 'open' and j.fence = 0 and s.key is null
limit :bound

-- name: slot_is_fired_once
-- Of: scheduled
-- Says: a slot of a schedule has one job
select min(id) from duework_job
where key like 'schedule:%' and key like '%@' || cast(at as text)
group by task, key
having count(*) > 1
limit :bound
