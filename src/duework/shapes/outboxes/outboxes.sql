-- The statements of outboxes. A row of duework_outbox is one message.

-- name: insert
-- Nothing is returned if the outbox has a message with that key.
insert into duework_outbox (id, outbox, key, message, state, job, queue, priority, lane, round, created, due)
values (:id, :outbox, :key, :message, 'queued', 0, :queue, :priority, :lane, :round, :now, :due)
on conflict (outbox, key) do nothing
returning id

-- name: by_key
select id, message from duework_outbox where outbox = :outbox and key = :key

-- name: has_job
update duework_outbox set job = :job where id = :id

-- name: messages
select id, outbox, key, message, state, job, queue, priority, lane, round, handle, submits, polls,
       errors, unsure_since, error, created, accepted, polled, settled
from duework_outbox
where id in (select value from json_each(:ids))
order by id desc
/*+ for update */

-- name: seen
-- The same without a lock, for people and for polls.
select id, outbox, key, message, state, job, queue, priority, lane, round, handle, submits, polls,
       errors, unsure_since, error, created, accepted, polled, settled
from duework_outbox
where id in (select value from json_each(:ids))
order by id desc

-- name: search
select id from duework_outbox
where outbox = :outbox and state = :state and id < :before
order by id desc
limit :wanted

-- name: search_lane
select id from duework_outbox
where outbox = :outbox and lane = :lane and lane <> '' and state = :state and id < :before
order by id desc
limit :wanted

-- name: names
-- Every outbox there is, by steps over the index.
with recursive n (outbox) as (
    select min(outbox) from duework_outbox
    union all
    select (select min(o.outbox) from duework_outbox o where o.outbox > n.outbox)
    from n where n.outbox is not null
)
select outbox from n where outbox is not null

-- name: count
select count(*) from (
    select 1 from duework_outbox where outbox = :outbox and state = :state
    order by id limit :bound) counted

-- name: counts_of_all
-- Every outbox with its messages by state, each counted up to a bound.
with recursive n (outbox) as (
    select min(outbox) from duework_outbox
    union all
    select (select min(o.outbox) from duework_outbox o where o.outbox > n.outbox)
    from n where n.outbox is not null
)
select n.outbox,
       (select count(*) from (select 1 from duework_outbox o where o.outbox = n.outbox
            and o.state = 'queued' order by o.id limit :bound) a),
       (select count(*) from (select 1 from duework_outbox o where o.outbox = n.outbox
            and o.state = 'sending' order by o.id limit :bound) b),
       (select count(*) from (select 1 from duework_outbox o where o.outbox = n.outbox
            and o.state = 'sent' order by o.id limit :bound) c),
       (select count(*) from (select 1 from duework_outbox o where o.outbox = n.outbox
            and o.state = 'failed' order by o.id limit :bound) d),
       (select count(*) from (select 1 from duework_outbox o where o.outbox = n.outbox
            and o.state = 'unsure' order by o.id limit :bound) e),
       (select count(*) from (select 1 from duework_outbox o where o.outbox = n.outbox
            and o.state = 'cancelled' order by o.id limit :bound) f)
from n
where n.outbox is not null

-- name: start_submit
update duework_outbox
set submits = submits + 1, unsure_since = coalesce(unsure_since, :now)
where id = :id

-- name: forget_start
-- It is known that the other side has not taken it.
update duework_outbox
set unsure_since = case when :sure = 1 then null else unsure_since end, error = :error
where id = :id and job = :job and state = 'queued'

-- name: forget_starts
-- The same of submits whose worker died before anything had left.
update duework_outbox
set unsure_since = null
where id in (select cast(substr(owner, 8) as bigint) from duework_job
             where id in (select value from json_each(:ids)) and owner like 'outbox:%')
  and job in (select value from json_each(:ids)) and state = 'queued'

-- name: accepted
update duework_outbox
set state = 'sending', handle = :handle, job = :poll, accepted = :now, unsure_since = null,
    error = null
where id = :id and job = :job and state = 'queued'

-- name: polled
update duework_outbox
set polls = polls + 1, polled = :now, error = :error,
    errors = case when :error is null then 0 else errors + 1 end
where id = :id and job = :job and state = 'sending'

-- name: ended
update duework_outbox
set state = :state, error = :error, settled = :now, due = :due
where id = :id and job = :job and state in ('queued', 'sending')
returning id

-- name: decide
update duework_outbox
set state = :state, error = :error, settled = :now, due = :due
where id = :id and state = 'unsure'

-- name: queued_again
-- Rounds count downward. One above 0 is of a version that counted upward, and keeps its key until it is over.
update duework_outbox
set state = 'queued', job = :job, handle = null, accepted = null,
    round = case when :raised = 1 then -abs(round) - 1 else round end,
    unsure_since = null, errors = 0, settled = null, due = :due
where id = :id

-- name: to_look_at
select o.id, o.state, o.job, j.state
from duework_outbox o
left join duework_job j on j.id = o.job
where o.due <= :now
order by o.due
limit :wanted

-- name: look_again
update duework_outbox set due = :due where id = :id

-- name: delete
delete from duework_outbox where id = :id
