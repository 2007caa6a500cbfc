-- What people look for and at: lists of jobs, counts for `duework status`. Nothing here changes a row.

-- name: lanes_of
select id from duework_lane where queue = :queue

-- name: held_by_worker
-- In the order of its index and up to a bound, so that no planner thinks of walking through the table instead.
select worker, count(*) from (
    select worker from duework_job where worker is not null order by due limit 10000) held
group by worker

-- name: search
-- One page, newest first. The phase is derived here and nowhere else in SQL.
select j.id
from duework_job j
join duework_lane l on l.id = j.lane
where j.id < :before and j.id > :after
  and (:task = '' or j.task = :task)
  and (:queue = '' or l.queue = :queue)
  and (:key = '' or j.key = :key)
  and (:own = 1 or l.queue <> :own_queue or j.state = 'failed')
  and (:phase = '' or :phase = j.state or :phase = case
        when j.state <> 'open' then j.state
        when j.worker is not null and j.due > :now then 'running'
        when j.worker is not null then 'expired'
        when j.due > :now then 'waiting'
        else 'ready' end)
order by j.id desc
limit :wanted

-- name: search_failed
-- The same for failed jobs, by their own small index.
select j.id
from duework_job j
join duework_lane l on l.id = j.lane
where j.state = 'failed' and j.id < :before and j.id > :after
  and (:task = '' or j.task = :task)
  and (:queue = '' or l.queue = :queue)
  and (:key = '' or j.key = :key)
order by j.id desc
limit :wanted

-- name: search_held
-- The same for held jobs.
select j.id
from duework_job j
join duework_lane l on l.id = j.lane
where j.worker is not null and j.id < :before and j.id > :after
  and (:task = '' or j.task = :task)
  and (:queue = '' or l.queue = :queue)
  and (:key = '' or j.key = :key)
  and (:own = 1 or l.queue <> :own_queue or j.state = 'failed')
  and (:phase = 'running') = (j.due > :now)
order by j.id desc
limit :wanted

-- name: search_floor
-- The first job that a look at so many does not reach; by the numbers alone.
select id from duework_job where id < :before order by id desc limit 1 offset :look

-- name: search_floor_failed
-- The same among those that failed.
select id from duework_job where state = 'failed' and id < :before order by id desc limit 1 offset :look

-- name: in_order
-- Counts stop at a bound if their rows come in the order of an index; SQLite reads them in no other way.

-- name: summary
-- Per lane: ready and waiting jobs, counted up to a bound, and the oldest ready one.
select l.queue, l.task, l.priority, l.alone, l.due,
       (select count(*) from (select 1 from duework_job j
          where j.lane = l.id and j.state = 'open' and j.worker is null and j.due <= :now
          order by j.due limit :bound) ready) as ready,
       (select count(*) from (select 1 from duework_job j
          where j.lane = l.id and j.state = 'open' and j.worker is null and j.due > :now
          order by j.due limit :bound) waiting) as waiting,
       (select count(*) from duework_job j where j.worker is not null and j.lane = l.id) as running,
       (select min(j.due) from duework_job j
          where j.lane = l.id and j.state = 'open' and j.worker is null and j.due <= :now) as oldest,
       l.pace
from duework_lane l
order by l.queue, l.task, l.priority desc, l.alone

-- name: count_failed
select count(*) from (
    select 1 from duework_job where state = 'failed' order by id limit :bound) failed

-- name: of_lane
-- Open jobs of a lane that no worker holds, a chunk at a time.
select id
from duework_job
where lane = :lane and state = 'open' and worker is null
order by due, id
limit :wanted
