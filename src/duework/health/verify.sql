-- The invariants of the kernel's tables. Each statement returns the ids of rows that break one, at
-- most :bound of them, and changes nothing. `scopes` counts what there was to look at.

-- name: scopes
select (select count(*) from duework_job) as jobs,
       (select count(*) from duework_job where state = 'open') as open_jobs,
       (select count(*) from duework_job where worker is not null) as held,
       (select count(*) from duework_job where state = 'open' and key is not null) as keyed,
       (select count(*) from duework_job where state = 'open' and serial is not null) as serial_jobs,
       (select count(*) from duework_job
        where state = 'open' and worker is null and due >= :forever) as parked,
       (select count(*) from duework_attempt) as attempts,
       (select count(*) from duework_once) as once_rows,
       (select count(*) from duework_lane) as lanes,
       (select count(*) from duework_chain) as chains,
       (select count(*) from duework_page) as pages,
       (select count(*) from duework_batch) as batches,
       (select count(*) from duework_job where batch is not null) as members,
       (select count(*) from duework_schedule where state <> 'deleted') as schedules,
       (select count(*) from duework_job where key like 'schedule:%') as scheduled,
       (select count(*) from duework_delivery) as channels,
       (select count(*) from duework_outbox) as messages,
       (select count(*) from duework_lane where pace is not null) as paced_lanes,
       (select count(*) from duework_pace) as paces

-- name: state_is_known
select id from duework_job
where state not in ('open', 'done', 'failed', 'cancelled')
limit :bound

-- name: settled_has_time
select id from duework_job
where (state = 'open') <> (settled is null)
limit :bound

-- name: worker_only_on_open
select id from duework_job
where worker is not null and state <> 'open'
limit :bound

-- name: key_is_open_once
select min(id) from duework_job
where state = 'open' and key is not null
group by task, key
having count(*) > 1
limit :bound

-- name: fence_counts_up
-- A job that is held was claimed, so its fence is at least 1.
select id from duework_job
where fence < 0 or (worker is not null and fence < 1)
limit :bound

-- name: lease_ends
-- Its worker may be gone: it would never be taken over.
select id from duework_job
where worker is not null and due >= :forever
limit :bound

-- name: held_is_not_over
-- An attempt is written down when its lease ends; a second one by the same fence is a stale holder's.
select j.id
from duework_job j
join duework_attempt a on a.job = j.id and a.fence = j.fence
where j.worker is not null
limit :bound

-- name: failures_are_recorded
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
select id from duework_job
where state <> 'open' and (again is not null or cancel_reason is not null)
limit :bound

-- name: attempt_of_job
select a.job
from duework_attempt a
left join duework_job j on j.id = a.job
where j.id is null
limit :bound

-- name: attempt_fence
select a.job
from duework_attempt a
join duework_job j on j.id = a.job
where a.fence > j.fence or a.fence < 1
limit :bound

-- name: attempt_outcome
select job from duework_attempt
where outcome not in ('retry', 'misfit', 'failed', 'crashed', 'crashed alone', 'lost')
limit :bound

-- name: lane_exists
-- And it is a lane of the job's own task.
select j.id
from duework_job j
left join duework_lane l on l.id = j.lane
where l.id is null or l.task <> j.task
limit :bound

-- name: lane_closed_by_pause
-- A lane never opens by itself if and only if its queue, or everything, is paused.
select l.id
from duework_lane l
where (l.due >= :forever)
   <> exists (select 1 from duework_pause p where p.queue in (l.queue, '*'))
limit :bound

-- name: linked_is_set
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
select min(id) from duework_job
where state = 'open' and serial is not null and (worker is not null or due < :forever)
group by serial
having count(*) > 1
limit :bound

-- name: serial_moves
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
select min(job) from duework_once
group by task, key
having count(*) > 1
limit :bound

-- name: lease_has_worker
select j.id
from duework_job j
left join duework_worker w on w.id = j.worker
where j.worker is not null and w.id is null
limit :bound

-- name: batch_counts
-- Its counters are what a recount of its members gives, those counted whose rows are gone.
select b.id
from duework_batch b
left join (select batch, count(*) as kept,
                  sum(case when state = 'open' then 1 else 0 end) as still_open,
                  sum(case when state = 'done' then 1 else 0 end) as done,
                  sum(case when state = 'failed' then 1 else 0 end) as failed,
                  sum(case when state = 'cancelled' then 1 else 0 end) as cancelled
           from duework_job
           where batch is not null
           group by batch) m on m.batch = b.id
where coalesce(m.kept, 0) <> b.total - b.gone
   or coalesce(m.still_open, 0) <> b.total - b.done - b.failed - b.cancelled
   or m.done > b.done or m.failed > b.failed or m.cancelled > b.cancelled
limit :bound

-- name: batch_settles
-- It is settled if and only if no member is open, is kept until then, and then has its follow-up.
select id from duework_batch
where (settled is null) <> (done + failed + cancelled < total)
   or (settled is null and due < :forever)
   or (settled is not null and fired = 0)
limit :bound

-- name: batch_exists
select j.id
from duework_job j
left join duework_batch b on b.id = j.batch
where j.batch is not null and b.id is null
limit :bound

-- name: chain_key_is_active_once
select min(id) from duework_chain
where state = 'active' and key is not null
group by task, key
having count(*) > 1
limit :bound

-- name: chain_pages_are_gapless
-- 1 to the number of the newest one.
select c.id
from duework_chain c
left join duework_page p on p.chain = c.id
group by c.id, c.number
having count(p.number) <> c.number or min(p.number) <> 1 or max(p.number) <> c.number
limit :bound

-- name: chain_completed_is_a_recount
-- All pages before the newest are done, and as many are done as the chain says.
select c.id
from duework_chain c
where c.completed not in (c.number, c.number - 1)
   or (select count(*) from duework_page p where p.chain = c.id and p.state = 'done') <> c.completed
   or (select count(*) from duework_page p
       where p.chain = c.id and p.state = 'done' and p.number <= c.completed) <> c.completed
limit :bound

-- name: chain_goes_on
-- An active chain has one page to do, whose job is open and starts where the last one ended; or only
-- its end, by the job of its last page.
select c.id
from duework_chain c
left join duework_page p on p.chain = c.id and p.number = c.number
left join duework_job j on j.id = p.job
where c.state = 'active'
  and (c.completed <> c.number - 1 + c.finishing
       or coalesce(p.state, '') <> case c.finishing when 1 then 'done' else 'open' end
       or coalesce(j.state, '') <> 'open' or coalesce(j.task, '') <> c.task
       or (c.finishing = 0 and coalesce(p.cursor, '') <> coalesce(c.cursor, ''))
       or coalesce(j.owner, '') <> 'chain:' || c.id)
limit :bound

-- name: chain_has_one_open_job
-- No other job does a page of it at the same time, active or not.
select min(id) from duework_job
where state = 'open' and owner like 'chain:%'
group by owner
having count(*) > 1
limit :bound

-- name: chain_done_is_complete
select id from duework_chain
where state = 'done' and completed <> number
limit :bound

-- name: page_of_chain
select p.chain
from duework_page p
left join duework_chain c on c.id = p.chain
where c.id is null
limit :bound

-- name: pace_within_limit
-- Nothing negative, and never more taken in a window than it admits.
select name from duework_pace
where used < 0 or used > most or blocked < 0
limit :bound

-- name: lane_waits_for_pace
select l.id
from duework_lane l
left join duework_pace p on p.name = l.pace
where l.pace is not null and p.name is null
limit :bound

-- name: slot_is_promised
-- A time of its own was given to it by one of its claims.
select id from duework_job
where (slot is null) <> (slot_fence is null) or slot_fence > fence or slot_fence < 1
limit :bound

-- name: schedule_is_armed
-- The job that fires it is open and its own, and due when it is, unless a worker has had it.
select s.key
from duework_schedule s
left join duework_job j on j.id = s.job and j.state = 'open' and j.owner = 'schedule:' || s.key
where s.state = 'active' and (j.id is null or (j.fence = 0 and j.due <> s.due))
limit :bound

-- name: schedule_rests
select key from duework_schedule
where (state = 'active') <> (due is not null) or (due is not null and due < slot)
limit :bound

-- name: fire_has_schedule
-- One that was held may have outlived its schedule, and ends when it is claimed.
select j.id
from duework_job j
left join duework_schedule s on s.job = j.id and j.owner = 'schedule:' || s.key
where j.owner like 'schedule:%' and j.state = 'open' and j.fence = 0 and s.key is null
limit :bound

-- name: slot_is_fired_once
select min(id) from duework_job
where key like 'schedule:%' and key like '%@' || cast(at as text)
group by task, key
having count(*) > 1
limit :bound

-- name: delivery_moves
-- A channel that is being sent has an open job that sends it. Its delivery would look after it only
-- much later, and then it is not known any more what became of it.
select d.job
from duework_delivery d
left join duework_job c on c.id = d.child and c.state = 'open'
where d.state = 'sending' and c.id is null
limit :bound

-- name: delivery_was_started
-- Nothing was sent, or may have been, without a start that was committed before.
select job from duework_delivery
where state in ('sent', 'unsure') and (send_started is null or sends = 0)
limit :bound

-- name: message_moves
-- A message that is not settled has an open job, of its own outbox, that moves it.
select o.id
from duework_outbox o
left join duework_job j on j.id = o.job and j.state = 'open'
     and j.task = o.outbox || case o.state when 'queued' then '.submit' else '.poll' end
where o.state in ('queued', 'sending') and j.id is null
limit :bound

-- name: message_was_submitted
-- Nothing was taken by the other side, or may have been, without a submit before it.
select id from duework_outbox
where submits = 0 and (state in ('sending', 'sent') or unsure_since is not null)
limit :bound

-- name: message_has_handle
select id from duework_outbox
where state = 'sending' and (handle is null or accepted is null)
limit :bound

-- name: payloads
-- A chunk of rows, newest first, to compare with their checksums.
select id, task, payload, checksum
from duework_job
where id < :before
order by id desc
limit :bound

-- name: integrity
pragma integrity_check

-- name: foreign_keys
pragma foreign_key_check
