-- The statements of schedules. Times are parameters; jobs are locked before schedules.

-- name: rows
select key, task, queue, priority, payload, kind, rule, start, tz, missed, missed_limit, overlap,
       idle, state, slot, due, job, last_slot, last_at, last_job, last_outcome, fires, idles,
       skips, declared, decorated, edited, owner, why, error, created,
       ends, count, counted
from duework_schedule
where key in (select value from json_each(:keys))

-- name: rows_locked
-- The same under lock, in the order in which every transaction locks them.
select key, task, queue, priority, payload, kind, rule, start, tz, missed, missed_limit, overlap,
       idle, state, slot, due, job, last_slot, last_at, last_job, last_outcome, fires, idles,
       skips, declared, decorated, edited, owner, why, error, created,
       ends, count, counted
from duework_schedule
where key in (select value from json_each(:keys))
order by key
/*+ for update */

-- name: page
-- One page by key; a prefix is a range of keys.
select key, task, queue, priority, payload, kind, rule, start, tz, missed, missed_limit, overlap,
       idle, state, slot, due, job, last_slot, last_at, last_job, last_outcome, fires, idles,
       skips, declared, decorated, edited, owner, why, error, created,
       ends, count, counted
from duework_schedule
where key >= :low and key < :high and state <> 'deleted'
order by key
limit :wanted

-- name: create
-- Does nothing where another transaction was first.
insert into duework_schedule (
       key, task, queue, priority, payload, kind, rule, start, tz, missed, missed_limit, overlap,
       idle, state, slot, due, job, last_slot, last_at, last_job, last_outcome, fires, idles,
       skips, declared, decorated, edited, owner, why, error, created,
       ends, count, counted)
values (:key, :task, :queue, :priority, :payload, :kind, :rule, :start, :tz, :missed,
        :missed_limit, :overlap, :idle, :state, :slot, :due, :job, :last_slot, :last_at, :last_job,
        :last_outcome, :fires, :idles, :skips, :declared, :decorated, :edited, :owner, :why,
        :error, :created, :ends, :count, :counted)
on conflict (key) do nothing

-- name: save
update duework_schedule
set task = :task, queue = :queue, priority = :priority, payload = :payload, kind = :kind,
    rule = :rule, start = :start, tz = :tz, missed = :missed, missed_limit = :missed_limit,
    overlap = :overlap, idle = :idle, state = :state, slot = :slot, due = :due, job = :job,
    last_slot = :last_slot, last_at = :last_at, last_job = :last_job,
    last_outcome = :last_outcome, fires = :fires, idles = :idles, skips = :skips,
    declared = :declared, decorated = :decorated, edited = :edited, owner = :owner, why = :why,
    error = :error, ends = :ends, count = :count, counted = :counted
where key = :key

-- name: fired
-- What firing changes, and nothing else.
update duework_schedule
set slot = :slot, due = :due, job = :job, last_slot = :last_slot, last_at = :last_at,
    last_job = :last_job, last_outcome = :last_outcome, fires = :fires, idles = :idles,
    skips = :skips, state = :state, error = :error, counted = :counted
where key = :key

-- name: fired_lately
-- Jobs that schedules have made, among the newest so many jobs; a key says which and for which slot.
select n.id, n.task, n.key, n.state, n.worker
from (select id, task, key, state, worker
      from duework_job
      where id < :before
      order by id desc
      limit :walk) n
where substr(n.key, 1, length(:prefix)) = :prefix
order by n.id desc

-- name: oldest_of
-- The oldest of the newest so many jobs: nothing older was looked at.
select min(j.id) from (
    select id from duework_job where id < :before order by id desc limit :walk) j

-- name: remove
delete from duework_schedule where key = :key

-- name: due_fires
-- Jobs that fire, due and held by no worker: whoever fires one takes these along.
select id, owner
from duework_job
where lane = :lane and state = 'open' and worker is null and due <= :now
order by due, id
limit :wanted
/*+ for update skip locked */

-- name: open_among
select id from duework_job
where id in (select value from json_each(:ids)) and state = 'open'
