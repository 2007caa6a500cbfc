-- compatible: 11
-- Views for people and their tools: reports, dashboards, a look with psql or sqlite3. Their columns are a promise;
-- the tables below are not. Times are milliseconds since 1970, in UTC. What is due is so only while it is open.
--
-- A later migration adds columns at the end, on PostgreSQL by `create or replace view`, so that views of the
-- user's own on top of these stay as they are; on SQLite it drops a view and creates it anew. What a column
-- below is called does not show: theirs are named here.

create view duework_jobs_v1 (
    id, task, queue, priority, lane, state, due, lane_due, worker, at, key, serial, after, batch,
    owner, failures, crashes, expires, settled, cancel_reason, progress, error, payload, result
) as
select j.id, j.task, l.queue, l.priority, l.share, j.state,
       case when j.state = 'open' then j.due end,
       case when j.state = 'open' then l.due end,
       j.worker, j.at, j.key, j.serial, j.after, j.batch, j.owner, j.failures, j.crashes, j.expires,
       j.settled, j.cancel_reason, j.progress, j.error, j.payload, j.result
from duework_job j
left join duework_lane l on l.id = j.lane;

create view duework_messages_v1 (
    id, outbox, key, state, lane, queue, priority, job, due, worker, handle, submits, polls, errors,
    unsure_since, error, created, accepted, polled, settled, message
) as
select o.id, o.outbox, o.key, o.state, o.lane, o.queue, o.priority, o.job,
       case when j.state = 'open' then j.due end,
       j.worker, o.handle, o.submits, o.polls, o.errors, o.unsure_since, o.error, o.created,
       o.accepted, o.polled, o.settled, o.message
from duework_outbox o
left join duework_job j on j.id = o.job;

create view duework_batches_v1 (
    id, name, key, task, state, total, open, done, failed, cancelled, created, settled, then_task,
    then_job
) as
select b.id, b.name, b.key, b.task, case when b.settled is null then 'open' else 'settled' end,
       b.total, b.total - b.done - b.failed - b.cancelled, b.done, b.failed, b.cancelled,
       b.created, b.settled, b.then_task, b.then_job
from duework_batch b;

create view duework_chains_v1 (
    id, task, key, state, queue, priority, pages, counts, cursor, expected, page, job, due, worker,
    error, started, settled, payload
) as
select c.id, c.task, c.key, c.state, c.queue, c.priority, c.completed, c.counts, c.cursor,
       c.expected, p.number, p.job,
       case when j.state = 'open' then j.due end,
       j.worker, c.error, c.started, c.settled, c.payload
from duework_chain c
left join duework_page p on p.chain = c.id and p.number = c.number
left join duework_job j on j.id = p.job;

create view duework_schedules_v1 (
    key, task, queue, priority, state, kind, rule, tz, slot, due, last_slot, last_at, last_job,
    last_outcome, fires, idles, skips, ends, owner, why, error, created, payload
) as
select s.key, s.task, s.queue, s.priority, s.state, s.kind, s.rule, s.tz, s.slot, s.due, s.last_slot,
       s.last_at, s.last_job, s.last_outcome, s.fires, s.idles, s.skips, s.ends, s.owner, s.why, s.error,
       s.created, s.payload
from duework_schedule s;

create view duework_deliveries_v1 (
    job, task, channel, key, state, sender, due, worker, sends, send_started, error, expires,
    settled, payload
) as
select d.job, b.task, d.channel, d.key, d.state, d.child,
       case when j.state = 'open' then j.due end,
       j.worker, d.sends, d.send_started, d.error, d.expires, d.settled, d.payload
from duework_delivery d
left join duework_job b on b.id = d.job
left join duework_job j on j.id = d.child;
