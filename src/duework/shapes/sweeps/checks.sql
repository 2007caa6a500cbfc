-- The invariants of sweeps. Each statement returns the rows that break one, at most :bound of them.

-- name: of_sweeps
select count(*) from duework_sweep

-- name: sweep_has_sweeper
-- Of: sweeps
-- Says: a sweep that runs has one open job that sweeps
select s.created
from duework_sweep s
where s.state = 'running' and s.job is not null
  and (select count(*) from duework_job j
       where j.task = s.name and j.state = 'open' and j.owner = 'sweep:' || s.name) <> 1
limit :bound
