-- What `why` reads. No statement looks at more rows when more jobs wait.

-- name: job
-- The job, its lane, what pauses it, the attempt that ended last if that did not end well, its worker.
select j.id, j.lane, j.task, j.state, j.due, j.at, j.fence, j.worker, j.failures, j.crashes, j.payload,
       j.error, j.serial, j.after, j.cancel_reason, j.settled, j.slot, j.slot_fence,
       l.queue, l.alone, l.due, l.pace,
       (select max(p.queue) from duework_pause p where p.queue in (l.queue, '*')),
       a.outcome, w.id, w.host, w.boot, w.space, w.pid, w.born, w.started
from duework_job j
join duework_lane l on l.id = j.lane
left join duework_attempt a on a.job = j.id and a.fence = j.fence
left join duework_worker w on w.id = j.worker
where j.id = :id

-- name: behind
-- The first job of its serial value, and the job that has to be done before it.
select 'serial', h.id, h.state, h.due, h.worker, h.failures
from (select id, state, due, worker, failures
      from duework_job
      where serial = :serial and state = 'open' and serial is not null
      order by due, id
      limit 1) h
union all
select 'after', j.id, j.state, j.due, j.worker, j.failures
from duework_job j
where j.id = :after

-- name: paces
select name, used, most, blocked from duework_pace where name in (select value from json_each(:names))

-- name: ahead
-- Ready jobs of the lane that come before it, up to a bound: due earlier, or enqueued earlier for then.
select (select count(*) from (
            select 1 from duework_job
            where lane = :lane and state = 'open' and worker is null and due < :due
            order by due limit :bound) earlier)
     + (select count(*) from (
            select 1 from duework_job
            where lane = :lane and state = 'open' and worker is null and due = :due and id < :id
            order by id limit :bound) alike)
