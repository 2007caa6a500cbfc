-- What `needs` reads besides lanes and workers. Every count stops at a bound.

-- name: ready
-- In the order of its index, so that no planner thinks of walking through the table instead.
select count(*) from (
    select 1 from duework_job
    where lane in (select value from json_each(:lanes)) and state = 'open' and worker is null
      and due <= :now
    order by lane, due limit :bound) ready

-- name: failed
-- The newest failed jobs; of their errors, as much as a line has.
select task, substr(error, 1, 300), settled, crashes
from duework_job
where state = 'failed'
order by id desc
limit :wanted

-- name: failures
-- The newest failed jobs of some task or queue, among so many that are looked at.
select f.id, f.task, l.queue, f.key, substr(f.error, 1, 300), f.settled, f.failures, f.crashes
from (select id, task, lane, key, error, settled, failures, crashes
      from duework_job
      where state = 'failed' and id < :before
      order by id desc
      limit :walk) f
join duework_lane l on l.id = f.lane
where (:task = '' or f.task = :task) and (:queue = '' or l.queue = :queue)
order by f.id desc
limit :wanted

-- name: unsure_sends
select count(*), min(u.settled) from (
    select settled from duework_delivery where state = 'unsure' order by job limit :bound) u

-- name: messages
-- Those that failed and those that are unsure. By steps over the index from outbox to outbox.
with recursive n (outbox) as (
    select min(outbox) from duework_outbox
    union all
    select (select min(o.outbox) from duework_outbox o where o.outbox > n.outbox)
    from n where n.outbox is not null
)
select s.state, n.outbox,
       (select count(*) from (
            select 1 from duework_outbox o where o.outbox = n.outbox and o.state = s.state
            order by o.id limit :bound) found),
       (select o.settled from duework_outbox o
        where o.outbox = n.outbox and o.state = s.state
        order by o.id limit 1)
from n cross join (select 'failed' as state union all select 'unsure') s
where n.outbox is not null

-- name: due_later
-- How many of these lanes' jobs fall due in each of the slots of `step` milliseconds from now on.
select slot, count(*) from (
    select (due - :now) / :step as slot from duework_job
    where lane in (select value from json_each(:lanes)) and state = 'open' and worker is null
      and due > :now and due < :until
    order by lane, due limit :bound) later
group by slot

-- name: next_fires
-- The jobs that fire schedules next; their owner names the schedule.
select due, owner from duework_job
where lane in (select value from json_each(:lanes)) and state = 'open' and worker is null
  and due > :now and due < :until
order by lane, due limit :bound
