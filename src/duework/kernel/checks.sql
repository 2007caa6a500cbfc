-- The invariants of the kernel. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_jobs
select count(*) from duework_job

-- name: of_keyed
select count(*) from duework_job where state = 'open' and key is not null

-- name: of_held
select count(*) from duework_job where worker is not null

-- name: of_attempts
select count(*) from duework_attempt

-- name: of_lanes
select count(*) from duework_lane

-- name: of_open_jobs
select count(*) from duework_job where state = 'open'

-- name: of_parked
select count(*) from duework_job where state = 'open' and worker is null and due >= :forever

-- name: of_serial_jobs
select count(*) from duework_job where state = 'open' and serial is not null

-- name: of_once_rows
select count(*) from duework_once

-- name: state_is_known
-- Of: jobs
-- Says: a job is open, done, failed or cancelled
select id from duework_job
where state not in ('open', 'done', 'failed', 'cancelled')
limit :bound

-- name: settled_has_time
-- Of: jobs
-- Says: a job has a settled time if and only if it is settled
select id from duework_job
where (state = 'open') <> (settled is null)
limit :bound

-- name: worker_only_on_open
-- Of: jobs
-- Says: only an open job is held by a worker
select id from duework_job
where worker is not null and state <> 'open'
limit :bound

-- name: key_is_open_once
-- Of: keyed
-- Says: a task has at most one open job per key
select min(id) from duework_job
where state = 'open' and key is not null
group by task, key
having count(*) > 1
limit :bound

-- name: fence_counts_up
-- Of: jobs
-- Says: a fence is never negative, and 1 or more once claimed
-- A job that is held was claimed, so its fence is at least 1.
select id from duework_job
where fence < 0 or (worker is not null and fence < 1)
limit :bound

-- name: lease_ends
-- Of: held
-- Says: a lease ends some day
-- Its worker may be gone: it would never be taken over.
select id from duework_job
where worker is not null and due >= :forever
limit :bound

-- name: held_is_not_over
-- Of: held
-- Says: what is held has not ended by the same fence
-- An attempt is written down when its lease ends; a second one by the same fence is a stale holder's.
select j.id
from duework_job j
join duework_attempt a on a.job = j.id and a.fence = j.fence
where j.worker is not null
limit :bound

-- name: failures_are_recorded
-- Of: jobs
-- Says: every failure and crash that counts is an attempt
-- More of them may be: a job that was revived counts from 0. A crash that was none stays in the list.
select j.id
from duework_job j
where (j.failures > 0 or j.crashes > 0)
  and (j.failures > (select count(*) from duework_attempt a
                     where a.job = j.id and a.outcome in ('retry', 'failed'))
       or j.crashes > (select count(*) from duework_attempt a
                       where a.job = j.id and a.outcome in ('crashed alone', 'lost')))
limit :bound

-- name: settled_asks_nothing
-- Of: jobs
-- Says: no run and no cancelling is asked of a settled job
select id from duework_job
where state <> 'open' and (again is not null or cancel_reason is not null)
limit :bound

-- name: attempt_of_job
-- Of: attempts
-- Says: an attempt belongs to a job
select a.job
from duework_attempt a
left join duework_job j on j.id = a.job
where j.id is null
limit :bound

-- name: attempt_fence
-- Of: attempts
-- Says: no attempt is newer than its job's fence
select a.job
from duework_attempt a
join duework_job j on j.id = a.job
where a.fence > j.fence or a.fence < 1
limit :bound

-- name: attempt_outcome
-- Of: attempts
-- Says: the outcome of an attempt is a known one
select job from duework_attempt
where outcome not in ('retry', 'misfit', 'failed', 'crashed', 'crashed alone', 'lost')
limit :bound

-- name: lane_exists
-- Of: jobs
-- Says: a job has a lane, of its own task
-- And it is a lane of the job's own task.
select j.id
from duework_job j
left join duework_lane l on l.id = j.lane
where l.id is null or l.task <> j.task
limit :bound

-- name: lane_closed_by_pause
-- Of: lanes
-- Says: a lane is closed if and only if its queue is paused
-- A lane never opens by itself if and only if its queue, or everything, is paused.
select l.id
from duework_lane l
where (l.due >= :forever)
   <> exists (select 1 from duework_pause p where p.queue in (l.queue, '*'))
limit :bound

-- name: linked_is_set
-- Of: open_jobs
-- Says: a job that others hang on is marked as linked
-- Without the flag a settle would not look at what else hangs on the row.
select j.id
from duework_job j
where j.state = 'open' and j.linked = 0
  and (j.serial is not null or j.owner is not null or j.again is not null
       or j.cancel_reason is not null
       or exists (select 1 from duework_job w
                  where w.after = j.id and w.after is not null and w.state = 'open'
                    and w.due >= :forever))
limit :bound

-- name: parked_has_reason
-- Of: parked
-- Says: a parked job waits for a job that can wake it
-- Another job will wake it: the one it runs after, or an open one of the same serial value.
select j.id
from duework_job j
where j.state = 'open' and j.worker is null and j.due >= :forever and j.at < :forever
  and not exists (select 1 from duework_job p
                  where p.id = j.after and p.state in ('open', 'failed'))
  and not exists (select 1 from duework_job s
                  where s.serial = j.serial and s.serial is not null and s.state = 'open'
                    and s.id <> j.id)
limit :bound

-- name: serial_is_single
-- Of: serial_jobs
-- Says: one job at a time of each serial value
select min(id) from duework_job
where state = 'open' and serial is not null and (worker is not null or due < :forever)
group by serial
having count(*) > 1
limit :bound

-- name: serial_moves
-- Of: serial_jobs
-- Says: jobs of a serial value do not all wait for each other
-- Not all open jobs of a serial value wait for each other.
select min(j.id)
from duework_job j
left join duework_job p on p.id = j.after and p.state in ('open', 'failed')
where j.state = 'open' and j.serial is not null
group by j.serial
having max(case when j.worker is not null or j.due < :forever or p.id is not null
                then 1 else 0 end) = 0
limit :bound

-- name: once_is_single
-- Of: once_rows
-- Says: a task has at most one `once` row per key
select min(job) from duework_once
group by task, key
having count(*) > 1
limit :bound

-- name: lease_has_worker
-- Of: held
-- Says: a lease belongs to a worker that is registered
select j.id
from duework_job j
left join duework_worker w on w.id = j.worker
where j.worker is not null and w.id is null
limit :bound
