-- The invariants of events. Each statement returns the ids of rows that break one, at most :bound of them.

-- name: of_events
select count(*) from duework_event

-- name: of_event_jobs
select count(*) from duework_event_job

-- name: of_subscribers
select count(*) from duework_subscriber

-- name: event_reached_all
-- Of: events
-- Says: an event has one job for each subscriber that it was given to
select e.id
from duework_event e
where e.jobs <> (select count(*) from duework_event_job j where j.event = e.id)
limit :bound

-- name: event_job_is_its_own
-- Of: event_jobs
-- Says: the job of an event and subscriber is of that subscriber, and of no other event
select p.event
from duework_event_job p
join duework_job j on j.id = p.job
where j.task <> p.subscriber or j.owner <> 'event:' || p.event
limit :bound

-- name: event_job_is_one
-- Of: event_jobs
-- Says: a subscriber has one job for an event
select min(j.id)
from duework_job j
where j.owner like 'event:%' and j.owner not like 'event:@%'
group by j.task, j.owner
having count(*) > 1
limit :bound

-- name: parked_event_is_open
-- Of: event_jobs
-- Says: an event that waits for a bulk has an open job that no worker holds, and somebody to run it
select p.event
from duework_event_job p
left join duework_job j on j.id = p.job and j.state = 'open' and j.worker is null
left join duework_subscriber s on s.name = p.subscriber and s.job is not null
where p.parked = 1 and (j.id is null or s.name is null)
limit :bound

-- name: bulk_has_job
-- Of: subscribers
-- Says: a subscriber whose events wait for a bulk names an open job that runs it
select s.created
from duework_subscriber s
left join duework_job j on j.id = s.job and j.state = 'open' and j.task = s.name || '.bulk'
where s.job is not null and j.id is null
limit :bound
