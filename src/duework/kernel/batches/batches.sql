-- Every statement on batches. A batch's row is written last, by the verb that ends its members.
-- Members are sorted by their batch and then by id, though the batch is one: so every planner sees that
-- the index of members has them in that order.

-- name: insert
-- Nothing is returned if there is a batch with the same key.
insert into duework_batch (id, name, key, task, total, keep, due, created, then_job, then_lane,
                           then_task, then_payload, then_delay, then_expires, member)
values (:id, :name, :key, :task, :total, :keep, :due, :created, :then_job, :then_lane,
        :then_task, :then_payload, :then_delay, :then_expires, :member)
on conflict (key) where key is not null do nothing
returning id

-- name: by_key
select id from duework_batch where key = :key and key is not null

-- name: grow
-- It has more members from now on; nothing is returned if it is over. The last of those that it had may end
-- at the same time: the transaction that writes this row first decides, and the other one sees it.
update duework_batch
set total = total + :count
where id = :id and settled is null
returning id

-- name: terms
-- How its members are made, and whether it is over.
select member, settled from duework_batch where id = :id

-- name: count
-- Adds what a whole group has changed, and returns how many members are open still.
update duework_batch
set done = done + :done, failed = failed + :failed, cancelled = cancelled + :cancelled,
    gone = gone + :gone
where id = :id
returning total - done - failed - cancelled, settled, fired, keep, then_job, then_lane, then_task,
          then_payload, then_delay, then_expires

-- name: complete
-- Settled, and its follow-up is enqueued now, if it was not before.
update duework_batch
set settled = :now, due = :due, fired = 1, then_job = :then_job
where id = :id

-- name: insert_follow
-- Nothing is returned if the id is taken: a process elsewhere has drawn the same one.
insert into duework_job (id, lane, task, due, at, payload, checksum, expires)
values (:id, :lane, :task, :at, :at, :payload, :checksum, :expires)
on conflict (id) do nothing
returning id

-- name: reopen
update duework_batch
set settled = null, due = :forever
where id = :id

-- name: rearm
-- The follow-up is wanted once more, as another job.
update duework_batch
set fired = 0, then_job = :job
where id = :id and fired = 1

-- name: row
select id, name, key, task, total, done, failed, cancelled, created, settled, fired, then_job,
       then_task
from duework_batch
where id = :id

-- name: list
-- One page, newest first.
select id, name, key, task, total, done, failed, cancelled, created, settled, fired, then_job,
       then_task
from duework_batch
where id < :before
order by id desc
limit :wanted

-- name: list_named
-- The same for one name.
select id, name, key, task, total, done, failed, cancelled, created, settled, fired, then_job,
       then_task
from duework_batch
where name = :name and id < :before
order by id desc
limit :wanted

-- name: running
-- Members that are held. Any lease ends between the beginning and the end of time: said so, no planner,
-- however little it knows, walks through all members or through the table instead of the leased rows.
select count(*)
from duework_job
where worker is not null and due between 0 and :forever and coalesce(batch, 0) = :batch

-- name: states
-- What became of a batch's first members, in their order.
select id, state, worker
from duework_job /*= indexed by duework_job_batch */
where batch = :batch and batch is not null
order by batch, id
limit :wanted

-- name: members
-- One page of a batch's jobs, newest first.
select id
from duework_job /*= indexed by duework_job_batch */
where batch = :batch and batch is not null and id < :before
  and (:phase = '' or :phase = state or :phase = case
        when state <> 'open' then state
        when worker is not null and due > :now then 'running'
        when worker is not null then 'expired'
        when due > :now then 'waiting'
        else 'ready' end)
order by batch desc, id desc
limit :wanted

-- name: failed_members
-- The same for failed ones, by their own small index.
select id
from duework_job
where batch = :batch and batch is not null and state = 'failed' and id < :before
order by batch desc, id desc
limit :wanted

-- name: failed_in_order
-- What is left to revive, from the oldest on, since that is the order in which they are to run.
select id, task, key
from duework_job
where batch = :batch and batch is not null and state = 'failed' and id > :after
order by batch, id
limit :wanted

-- name: open_members
-- What is left to cancel, from the oldest on.
select id
from duework_job /*= indexed by duework_job_batch */
where batch = :batch and batch is not null and id > :after and state = 'open'
order by batch, id
limit :wanted

-- name: cancel_plain
-- Ends waiting jobs that nothing hangs on; returns them.
update duework_job
set state = 'cancelled', due = :due, error = :why, settled = :now
where id in (select id from duework_job
             where id in (select value from json_each(:ids))
               and state = 'open' and worker is null and linked = 0
             order by id /*+ for update */)
returning id, batch

-- name: revive_plain
-- Opens a batch's failed jobs that nothing hangs on, and whose keys are not to be looked for; returns them.
update duework_job
set state = 'open', due = :now, failures = 0, crashes = 0, result = null, again = null,
    cancel_reason = null, progress = null, settled = null
where id in (select id from duework_job
             where batch = :batch and batch is not null and state = 'failed' and linked = 0
               and after is null and key is null
             order by batch, id /*+ for update */)
returning id

-- name: over
-- Settled batches whose retention has ended.
select id, total - gone
from duework_batch
where due <= :now
order by due
limit :wanted
/*+ for update skip locked */

-- name: keep_until
update duework_batch set due = :due where id in (select value from json_each(:ids))

-- name: delete
delete from duework_batch where id in (select value from json_each(:ids))
