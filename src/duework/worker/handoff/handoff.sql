-- How a job becomes claimed without a claim of its own: with the enqueue that makes it.

-- name: insert_claimed
-- The same for a job that a worker holds from the start, if the worker is known, its lane admits any and
-- nothing else that is due may have to go first; :due is the lease's end.
insert into duework_job (id, lane, task, key, due, at, linked, payload, checksum, expires, serial,
                         after, owner, batch, worker, fence)
select :id, :lane, :task, :key, :due, :at, :linked, :payload, :checksum, :expires, :serial,
       :after, :owner, :batch, :worker, 1
where exists (select 1 from duework_lane where id = :lane and due <= :now)
  and exists (select 1 from duework_worker where id = :worker)
  and not exists (
      with recursive busy (lane) as (
          select cast(0 as bigint)
          union all
          select (select min(j.lane) from duework_job j
                  where j.lane > busy.lane and j.state = 'open' and j.worker is null)
          from busy where busy.lane is not null
      )
      select 1 from busy
      join duework_lane l on l.id = busy.lane
      where l.due <= :now and l.priority >= :priority
        and exists (select 1 from duework_job j
                    where j.lane = l.id and j.state = 'open' and j.worker is null and j.due <= :now))

-- name: claim_made
-- The same for a job that this transaction has made, if it is still as it was, its lane admits any, and
-- nothing else that is due may have to go first.
update duework_job
set due = :until, worker = :worker, fence = 1
where id = :id and state = 'open' and worker is null and due = :due and checksum = :checksum
  and exists (select 1 from duework_lane where id = :lane and due <= :now)
  and not exists (
      with recursive busy (lane) as (
          select cast(0 as bigint)
          union all
          select (select min(j.lane) from duework_job j
                  where j.lane > busy.lane and j.state = 'open' and j.worker is null)
          from busy where busy.lane is not null
      )
      select 1 from busy
      join duework_lane l on l.id = busy.lane
      where l.due <= :now and l.priority >= :priority
        and exists (select 1 from duework_job j
                    where j.lane = l.id and j.state = 'open' and j.worker is null and j.due <= :now
                      and j.id <> :id))

-- name: claimed_for
-- Of some jobs, those that a worker was given as they were made, and until when they are leased.
select id, fence, lane, task, payload, checksum, at, failures, crashes, key, expires, serial,
       owner, batch, slot, slot_fence, due
from duework_job
where id in (select value from json_each(:ids)) and worker = :worker and fence = 1
