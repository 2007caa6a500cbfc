-- The invariants of steps.

-- name: of_steps
select count(*) from duework_step

-- name: step_never_changes
-- Of: steps
-- Says: a recorded step never changes: no later attempt has written it than the one that wrote the next
select s.job
from duework_step s
join duework_step n on n.job = s.job and n.place = s.place + 1
where s.fence > n.fence or s.ended is null
limit :bound

-- name: step_without_gap
-- Of: steps
-- Says: the steps of a workflow are recorded in their order, without a gap
select s.job
from duework_step s
left join duework_step p on p.job = s.job and p.place = s.place - 1
where s.place > 1 and p.job is null
limit :bound

-- name: step_has_ended
-- Of: steps
-- Says: a step has an end if it is done or has failed, and none if not
select job
from duework_step
where (state in ('done', 'failed')) <> (ended is not null)
limit :bound

-- name: step_was_held
-- Of: steps
-- Says: no step was recorded under a fence that its job never had
select s.job
from duework_step s
join duework_job j on j.id = s.job
where s.fence > j.fence
limit :bound

-- name: child_is_there
-- Of: steps
-- Says: a job that a waiting workflow waits for is open
select s.job
from duework_step s
join duework_job p on p.id = s.job and p.state = 'open'
left join duework_job c on c.id = s.child and c.state = 'open'
where s.kind = 'child' and s.state = 'waiting' and c.id is null
limit :bound

-- name: signal_is_heard
-- Of: steps
-- Says: no workflow sleeps on when a signal that it waits for has come
select s.job
from duework_step s
join duework_job j on j.id = s.job and j.state = 'open' and j.worker is null
where s.kind = 'wait' and s.state = 'waiting' and j.due = s.due
  and exists (select 1 from duework_signal g
              where g.event = s.event and g.key = s.key and g.at > s.started
                and g.id > coalesce((select max(o.signal) from duework_step o
                                     where o.job = s.job and o.event = s.event and o.key = s.key), 0))
limit :bound
