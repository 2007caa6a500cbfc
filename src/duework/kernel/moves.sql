-- What shapes do to rows of the kernel; the verbs are in moves.py.

-- name: still_held
select id, fence from duework_job
where id in (select value from json_each(:ids)) and worker is not null
order by id
/*+ for update */

-- name: move
-- Another plan: its `at` is the new time, and what went wrong with the last one is over.
update duework_job
set due = :due, at = :at, failures = 0, error = null
where id = :id and state = 'open' and worker is null

-- name: wake
update duework_job
set due = :now
where id = :id and state = 'open' and worker is null and due > :now

-- name: hasten
-- A snooze or a retry has moved `due` away from `at`.
update duework_job
set due = :now
where id = :id and state = 'open' and worker is null and due > :now and due = at

-- name: never_expire
update duework_job set expires = null where id = :id

-- name: delay_lanes
-- Found by their tasks: another task may have very many lanes.
update duework_lane
set due = :until, pace = null
where id in (select id from duework_lane /*= indexed by duework_lane_task */
             where task in (select value from json_each(:tasks)) and due < :until
             order by id /*+ for update */)
