-- The statements of events. A job of the kernel belongs to each event and subscriber; duework_event_job says which.

-- name: topics
-- Publishers share it with each other, and wait for whoever subscribes: nobody misses an event, or gets it twice.
select name from duework_topic where name in (select value from json_each(:names)) order by name /*+ for share */

-- name: lock_topic
select name from duework_topic where name = :name /*+ for update */

-- name: new_topic
insert into duework_topic (name) values (:name) on conflict (name) do nothing

-- name: all_topics
select t.name, (select count(*) from duework_subscriber s where s.event = t.name),
       (select max(e.id) from duework_event e where e.name = t.name)
from duework_topic t
where t.name > :after
order by t.name
limit :wanted

-- name: of_topics
select name, event, queue, priority, bulk, within_ms, job, created
from duework_subscriber
where event in (select value from json_each(:names))
order by name

-- name: subscribers
select name, event, queue, priority, bulk, within_ms, job, created
from duework_subscriber
where name > :after
order by name
limit :wanted

-- name: subscriber
select name, event, queue, priority, bulk, within_ms, job, created
from duework_subscriber
where name = :name
/*+ for update */

-- name: event_of
select event from duework_subscriber where name = :name

-- name: subscribe
insert into duework_subscriber (name, event, queue, priority, bulk, within_ms, job, created)
values (:name, :event, :queue, :priority, :bulk, :within_ms, null, :now)
on conflict (name) do update
set event = :event, queue = :queue, priority = :priority, bulk = :bulk, within_ms = :within_ms

-- name: unsubscribe
delete from duework_subscriber where name = :name returning name

-- name: set_job
update duework_subscriber set job = :job where name = :name

-- name: insert
insert into duework_event (id, name, payload, jobs, at, due)
values (:id, :name, :payload, :jobs, :at, :due)

-- name: insert_job
insert into duework_event_job (event, subscriber, job, at, parked)
values (:event, :subscriber, :job, :at, :parked)

-- name: count_job
update duework_event set jobs = jobs + 1 where id = :id

-- name: history
-- Of a name since a time, what a subscriber has not got.
select e.id, e.name, e.payload, e.at
from duework_event e
where e.name = :event and e.at >= :since
  and not exists (select 1 from duework_event_job j where j.event = e.id and j.subscriber = :name)
order by e.id

-- name: parked
select job, at from duework_event_job
where subscriber = :name and parked = 1
order by job
limit :wanted

-- name: all_parked
select job from duework_event_job where subscriber = :name and parked = 1 order by job

-- name: to_run
-- The next bulk: payloads of its jobs, which no worker holds.
select p.job, j.payload
from (select job from duework_event_job where subscriber = :name and parked = 1
      order by job limit :wanted) p
join duework_job j on j.id = p.job and j.state = 'open' and j.worker is null
order by p.job

-- name: unpark
update duework_event_job set parked = 0 where subscriber = :name and job in (select value from json_each(:jobs)) and parked = 1

-- name: unpark_event
update duework_event_job set parked = 0 where event = :event and subscriber = :name and parked = 1

-- name: search
select id, name, payload, jobs, at from duework_event
where name = :name and id < :before and at >= :since
order by id desc
limit :wanted

-- name: newest
select id, name, payload, jobs, at from duework_event
where id < :before and at >= :since
order by id desc
limit :wanted

-- name: event
select id, name, payload, jobs, at from duework_event where id = :id

-- name: jobs_of
-- Who was given an event, and what became of it; a job that is missing has ended and is not kept any more.
select p.subscriber, p.job, j.state, j.failures, j.error, j.crashes
from duework_event_job p
left join duework_job j on j.id = p.job
where p.event = :event
order by p.subscriber

-- name: over
-- One that waits for its bulk stays until then.
delete from duework_event
where id in (select e.id from duework_event e
             where e.due <= :now
               and not exists (select 1 from duework_event_job j where j.event = e.id and j.parked = 1)
             order by e.due limit :wanted)
returning id

-- name: over_jobs
-- Those of events that are gone.
delete from duework_event_job where event in (select value from json_each(:ids)) and parked = 0
