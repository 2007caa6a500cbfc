-- Every statement about jobs. Time and ids are parameters: nothing here asks what time it is.
--
-- The tables of the kernel:
--   duework_job      one row for each job. It is claimable when state = 'open', worker is null and due <= now, and
--                    its lane is due. `due` has three meanings: from when it may be claimed; while a worker holds it,
--                    the end of the lease; once it has settled, the end of its retention. FOREVER: it is parked, until
--                    the job that it waits for (after) or the one before it (serial) ends.
--   duework_lane     one row for each (queue, task, priority, tier, share, alone): jobs that are interchangeable for
--                    admission. A pause or a pace moves the lane's `due`, and touches no job.
--   duework_attempt  one row for each attempt that did not end well: (job, fence).
--   duework_once     keys that admit one job for longer than it is open (`once=`); of requests also a number of the body.
--   duework_worker   processes that work, and how to see that one of them is dead.
--   duework_pause    queues that are paused; '*' is all of them.
--   duework_mark     the commit marker of each writer. duework_meta: what is kept by name, such as the boots.
--   duework_pace     what admits jobs (paces/paces.sql). duework_batch: counters (batches/batches.sql).
-- Other tables belong to shapes (shapes/*/*.sql), and their jobs say so in `owner`.
--
-- The verbs, in Python beside this file, and the statements that each of them runs:
--   enqueue   lanes by `lane_ids`, `new_lane`; then one of the `insert`s; with a key `insert_keyed`, `open_by_key`,
--             `replace`, `ask_again`; with once= `once`; behind another job `link`, `state_of`, `serial_head`
--   claim     `lanes` finds what is due; `claim` takes it: worker, fence + 1, due = the lease's end; `running` counts
--             leases against limits; `signals` reads what else a worker should know
--   extend    `extend` moves the ends of leases, if the fence is the present one
--   settle    `settle_done` for all that simply ended, `settle_gone` for what is not kept; else `held` locks the row,
--             `rewrite` writes it and `attempt` records it; `release` opens what waited for it
--   recover   `leases_over` and `leases_of` find leases to write off, which settle as crashed or released
--   cancel    what waits ends by `rewrite`; what runs gets `ask_cancel`, and its worker reads `to_cancel`
--   revive    `rewrite`: open again, due now.  purge and prune: `delete_jobs`, `delete_attempts`
--   pause     `pause`, `pause_lanes` and back: `resume`, `resume_lanes`
-- What is searched and counted for people is in operate.sql, what the housekeeping looks for in pruning.sql.
-- A statement that runs once per row is given many rows at a time (`Tx.bulk`). What has nothing but a comment is
-- not run on SQLite, and has its text in jobs.postgres.sql.

-- name: lane_ids
select queue, task, priority, tier, share, alone, id
from duework_lane
where queue = :queue and task = :task and priority = :priority
  and tier = :tier and share = :share and alone = :alone

-- name: queues
select distinct queue from duework_lane

-- name: lock_lane_births
-- Lanes are made, paused and resumed by one transaction at a time; SQLite has no other way.

-- name: new_lane
-- A lane of a paused queue is born paused. Does nothing if another transaction was first.
insert into duework_lane (id, queue, task, priority, tier, share, alone, due)
select (select coalesce(max(id), 0) + 1 from duework_lane),
       :queue, :task, :priority, :tier, :share, :alone,
       case when exists (select 1 from duework_pause where queue in (:queue, '*'))
            then :forever else 0 end
where true
on conflict do nothing

-- name: insert
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum, expires, serial,
                         after, owner, batch)
values (:id, :lane, :task, :key, :due, :at, :linked, :payload, :checksum, :expires, :serial,
        :after, :owner, :batch)

-- name: insert_one
-- The same for one row; on PostgreSQL the other one takes arrays.
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum, expires, serial,
                         after, owner, batch)
values (:id, :lane, :task, :key, :due, :at, :linked, :payload, :checksum, :expires, :serial,
        :after, :owner, :batch)

-- name: insert_alike
-- Jobs that nothing hangs on and that differ in their payloads only. Those are one JSON text, each behind
-- the ten digits of its checksum: it is written and read quicker than values one by one, and other
-- threads can run meanwhile.
insert into duework_job (id, lane, task, due, at, payload, checksum, expires, batch)
select :first + key, :lane, :task, :at, :at, substr(value, 11), cast(substr(value, 1, 10) as integer),
       :expires, :batch
from json_each(:rows)

-- name: insert_keyed
-- Nothing is returned if the key is taken by an open job of the task.
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum, expires, serial,
                         after, owner, batch)
values (:id, :lane, :task, :key, :due, :at, :linked, :payload, :checksum, :expires, :serial,
        :after, :owner, :batch)
on conflict (task, key) where state = 'open' and key is not null do nothing
returning id

-- name: insert_keys
-- The same for many rows; those whose keys are taken are left out.
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum, expires, serial,
                         after, owner, batch)
values (:id, :lane, :task, :key, :due, :at, :linked, :payload, :checksum, :expires, :serial,
        :after, :owner, :batch)
on conflict (task, key) where state = 'open' and key is not null do nothing

-- name: once
-- Returns our id if we are the first to use the key, or if the last use is over.
insert into duework_once (task, key, job, until)
values (:task, :key, :job, :until)
on conflict (task, key) do update
set job = excluded.job, until = excluded.until
where duework_once.until <= :now
returning job

-- name: once_job
select job from duework_once where task = :task and key = :key

-- name: once_is
update duework_once set job = :job where task = :task and key = :key

-- name: open_by_key
select id, worker
from duework_job
where task = :task and key = :key and state = 'open' and key is not null
/*+ for update */

-- name: replace
-- A job that waits for another one, or for the one before it, goes on waiting.
update duework_job
set lane = :lane, payload = :payload, checksum = :checksum, at = :at, expires = :expires,
    due = case when due >= :forever then due else :at end
where id = :id and state = 'open' and worker is null

-- name: ask_again
update duework_job
set again = :payload, expires = :expires, linked = 1
where id = :id and state = 'open' and worker is not null

-- name: link
update duework_job set linked = 1 where id = :id

-- name: state_of
select state from duework_job where id = :id
/*+ for update */

-- name: lock_serials
-- One writer at a time is all that SQLite has.

-- name: serial_head
-- The job of a serial value that is claimable or held; if there is none, the first that is parked.
select id, after, due, at, worker
from duework_job
where serial = :serial and state = 'open' and serial is not null
order by due, id
limit 1

-- name: lanes
-- Every lane that has jobs that no worker holds, with the due time of the first one. A look steps from lane
-- to lane in the index of those jobs: it costs nothing that there are others, whose jobs are all over.
with recursive busy (lane) as (
    select cast(0 as bigint)
    union all
    select (select min(j.lane) from duework_job j
            where j.lane > busy.lane and j.state = 'open' and j.worker is null)
    from busy where busy.lane is not null
)
select l.id, l.queue, l.task, l.priority, l.tier, l.share, l.alone, l.due,
       (select min(j.due) from duework_job j
        where j.lane = l.id and j.state = 'open' and j.worker is null) as head,
       0 as head_id
from busy
join duework_lane l on l.id = busy.lane

-- name: lanes_above
-- The same from known places on; here nothing that is over lies before them.

-- name: lane_name
select queue, task, priority, tier, share, alone from duework_lane where id = :id

-- name: dead_rows
-- What was changed and could not be cleared up yet; here nothing ever is.
select 0 as dead

-- name: lock_limits
-- Two claims that count the same leases wait for each other; here they do so in any case.

-- name: running
select l.queue, l.task, count(*)
from duework_job j
join duework_lane l on l.id = j.lane
where worker is not null
group by l.queue, l.task

-- name: claim
-- Takes the first due jobs of a lane: names the worker, raises the fence, leases until :until. A fence
-- that a loss of power took back is below :floor, and is not given again; a slot that was promised by the
-- last claim stays so.
update duework_job
set due = :until, worker = :worker, fence = max(fence, :floor) + 1,
    slot_fence = case when slot_fence = fence then max(fence, :floor) else slot_fence end
where id in (
    select id from duework_job
    where lane = :lane and state = 'open' and worker is null and due <= :now
    order by due, id
    limit :wanted
)
returning id, fence, lane, task, payload, checksum, at, failures, crashes, key, expires, serial,
          owner, batch, slot, slot_fence

-- name: next_lease_end
select min(due) from duework_job where worker is not null

-- name: leases_over
-- Held jobs whose lease has ended.
select id, fence, worker, task, lane
from duework_job
where worker is not null and due <= :now
order by due
limit :wanted
/*+ for update skip locked */

-- name: leases_of
select id, fence, worker, task, lane
from duework_job
where worker is not null and worker in (select value from json_each(:workers))
limit :wanted
/*+ for update skip locked */

-- name: extend
update duework_job
set due = :until
where id = :id and fence = :fence and worker = :worker

-- name: to_cancel
-- What this worker runs and is to be cancelled.
select id, fence, cancel_reason
from duework_job
where worker = :worker and cancel_reason is not null and worker is not null

-- name: progress
update duework_job
set progress = :progress
where id = :id and fence = :fence and worker = :worker

-- name: settle_done
-- The common case: it worked, and nothing else hangs on the row. A planner that does not know of its batch would
-- not count it there, and is sent the long way.
update duework_job
set state = 'done', due = :due, worker = null, result = :result, error = null,
    settled = :settled
where id = :id and fence = :fence and worker = :worker and linked = 0 and state = 'open'
  and batch is not distinct from :batch

-- name: settle_alike
-- The same for many that end alike: all are done, or those that were not touched have to be looked at.
-- Written so that planners keep from the index of all that is leased: these are found by their ids.
update duework_job
set state = 'done', due = :due, worker = null, result = :result, error = null,
    settled = :settled
where id in (select value from json_each(:ids)) and fence = :fence and coalesce(worker, 0) = :worker
  and linked = 0 and state = 'open' and batch is not distinct from :batch

-- name: settle_gone
-- The same for rows that are not kept.
delete from duework_job
where id = :id and fence = :fence and worker = :worker and linked = 0 and state = 'open'

-- name: held
-- Whole rows, under lock, in the order in which every transaction locks them.
select id, lane, task, key, state, due, at, fence, worker, failures, crashes, payload, checksum,
       result, error, serial, after, again, cancel_reason, owner, linked, progress, settled, batch
from duework_job
where id in (select value from json_each(:ids))
order by id
/*+ for update */

-- name: held_unlocked
-- The same without a lock, to learn which serial values to lock first.
select id, lane, task, key, state, due, at, fence, worker, failures, crashes, payload, checksum,
       result, error, serial, after, again, cancel_reason, owner, linked, progress, settled, batch
from duework_job
where id in (select value from json_each(:ids))
order by id

-- name: rewrite
-- Everything about a row that a verb other than claim may change.
update duework_job
set state = :state, due = :due, worker = null, lane = :lane, failures = :failures,
    crashes = :crashes, result = :result, error = :error, payload = :payload,
    checksum = :checksum, again = :again, cancel_reason = null, progress = :progress, settled = :settled
where id = :id

-- name: replan
update duework_job set due = :due where id = :id and state = 'open' and worker is null

-- name: result
-- What an effect has returned, for a row that is done already.
update duework_job set result = :result where id = :id

-- name: delete
delete from duework_job where id = :id

-- name: ask_cancel
-- What was asked for before, a second run included, is not wanted any more.
update duework_job
set cancel_reason = :why, again = null, linked = 1
where id = :id and worker is not null

-- name: release
-- A parked job may be claimed from :due on.
update duework_job
set due = :due
where id = :id and state = 'open' and worker is null and due = :forever

-- name: attempt
insert into duework_attempt (job, fence, outcome, worker, started, ended, error)
values (:job, :fence, :outcome, :worker, :started, :ended, :error)
on conflict (job, fence) do nothing

-- name: attempts
select fence, outcome, worker, started, ended, error
from duework_attempt
where job = :job
order by fence

-- name: crashed_before
-- Of some jobs, those whose last attempt that had begun crashed.
select a.job
from duework_attempt a
where a.job in (select value from json_each(:ids)) and a.outcome in ('crashed', 'crashed alone')
  and not exists (select 1 from duework_attempt l
                  where l.job = a.job and l.fence > a.fence and l.outcome <> 'lost')

-- name: last_attempts
select fence, outcome
from duework_attempt
where job = :job
order by fence desc
limit :wanted

-- name: excuse_attempt
-- The holder is back: it had lost its lease, it had not crashed.
update duework_attempt
set outcome = 'lost'
where job = :job and fence = :fence and outcome = :outcome
returning job

-- name: excuse_job
update duework_job
set crashes = case when crashes > 0 then crashes - 1 else 0 end
where id = :job and state = 'open'

-- name: waiting_for
select id, serial, at from duework_job
where after = :job and state = 'open' and after is not null
order by id

-- name: serials_behind
-- Serial values of what waits for these jobs. Those without one are left to the caller: a planner
-- that knew of it would walk through the index of serial values instead.
select serial from duework_job
where after in (select value from json_each(:ids)) and state = 'open' and after is not null

-- name: key_taken
select id from duework_job
where task = :task and key = :key and state = 'open' and key is not null

-- name: worker_is
insert into duework_worker (id, host, boot, space, pid, born, started, limits)
values (:id, :host, :boot, :space, :pid, :born, :started, :limits)
on conflict (id) do nothing

-- name: limits_of_others
select id, host, boot, space, pid, born, started, limits
from duework_worker
where id <> :id and limits is not null
order by id

-- name: workers
select id, host, boot, space, pid, born, started from duework_worker order by id

-- name: signals
-- All that a worker should know besides its lanes, at once: which workers there are, what it is to cancel, and
-- if it wants to know, when the first lease ends.
select 'worker', id, host, boot, space, pid, born, started from duework_worker
union all
select 'cancel', id, cancel_reason, '', '', fence, 0, 0
from duework_job where worker = :worker and cancel_reason is not null and worker is not null
union all
select 'lease', min(due), '', '', '', 0, 0, 0
from duework_job where worker is not null and :leases

-- name: worker_gone
delete from duework_worker
where id = :id
  and not exists (select 1 from duework_job where worker = :id and worker is not null)

-- name: jobs
-- Whole rows for people to look at.
select j.id, l.queue, j.task, l.priority, l.alone, j.key, j.state, j.due, j.at, j.fence, j.worker,
       j.failures, j.crashes, j.payload, j.result, j.error, j.expires, j.serial, j.after, j.cancel_reason,
       j.owner, j.progress, j.settled, j.batch
from duework_job j
join duework_lane l on l.id = j.lane
where j.id in (select value from json_each(:ids))
order by j.id desc

-- name: delete_jobs
delete from duework_job where id in (select value from json_each(:ids))

-- name: delete_attempts
delete from duework_attempt where job in (select value from json_each(:ids))

-- name: pause
insert into duework_pause (queue) values (:queue) on conflict do nothing

-- name: resume
delete from duework_pause where queue = :queue

-- name: paused
select queue from duework_pause order by queue

-- name: pause_lanes
update duework_lane
set due = :forever
where id in (select id from duework_lane where :queue = '*' or queue = :queue order by id /*+ for update */)

-- name: resume_lanes
-- A lane whose queue is still paused in another way stays so.
update duework_lane
set due = 0
where (:queue = '*' or queue = :queue) and due >= :forever
  and not exists (select 1 from duework_pause p where p.queue in (duework_lane.queue, '*'))
