-- The statements of sweeps. A row of duework_sweep names the one job that sweeps.

-- name: declare
insert into duework_sweep (name, state, queue, priority, created)
values (:name, :state, :queue, :priority, :now)
on conflict (name) do nothing

-- name: place
update duework_sweep set queue = :queue, priority = :priority where name = :name

-- name: sweep
select name, state, job, queue, priority, current, rounds, done, failed, last_at, created
from duework_sweep
where name = :name

-- name: lock
select name, state, job, queue, priority, current, rounds, done, failed, last_at, created
from duework_sweep
where name = :name
/*+ for update */

-- name: search
select name, state, job, queue, priority, current, rounds, done, failed, last_at, created
from duework_sweep
where name > :after
order by name
limit :wanted

-- name: runs
update duework_sweep set state = :state, job = :job where name = :name

-- name: begins
-- Committed before a round, and before an item that runs alone: if the process dies, this is what it was at.
update duework_sweep set current = :current where name = :name and job = :job

-- name: ends
update duework_sweep set current = null where name = :name and job = :job

-- name: counted
update duework_sweep
set rounds = rounds + :rounds, done = done + :done, failed = failed + :failed, last_at = :now, current = 'round'
where name = :name

-- name: forget
update duework_sweep
set rounds = 0, done = 0, failed = 0, last_at = null, current = null
where name = :name

-- name: went_wrong
insert into duework_sweep_item (sweep, key, failures, next_try, error, changed)
values (:sweep, :key, :failures, :next_try, :error, :now)
on conflict (sweep, key) do update
set failures = :failures, next_try = :next_try, error = :error, changed = :now

-- name: went_well
delete from duework_sweep_item
where sweep = :sweep and key in (select value from json_each(:keys))

-- name: items
select key, failures, next_try, error from duework_sweep_item
where sweep = :sweep and key in (select value from json_each(:keys))

-- name: failing
select key, failures, next_try, error from duework_sweep_item
where sweep = :sweep and next_try > :now
order by next_try
limit :wanted

-- name: count_failing
select count(*) from (
    select 1 from duework_sweep_item where sweep = :sweep and next_try > :now limit :bound) counted

-- name: forget_items
delete from duework_sweep_item where sweep = :sweep

-- name: over
delete from duework_sweep_item
where (sweep, key) in (select sweep, key from duework_sweep_item
                       where changed <= :old and next_try <= :now order by changed limit :wanted)
returning key
