-- The statements of deliveries. A row of duework_delivery is one channel of one delivery.

-- name: channels
select d.channel, d.key, d.payload, d.state, d.child, d.sends, d.send_started, d.given_up, d.concluded,
       d.error, d.expires, d.settled, j.state
from duework_delivery d
left join duework_job j on j.id = d.child
where d.job = :job
order by d.channel

-- name: insert
insert into duework_delivery (job, channel, key, payload, state, child, expires, due)
values (:job, :channel, :key, :payload, 'sending', :child, :expires, :due)

-- name: again
-- Its send begins anew, with the same key: in another round, or since somebody decided so.
update duework_delivery
set state = 'sending', child = :child, send_started = null, given_up = 0, concluded = 0, settled = null
where job = :job and channel = :channel and state = :was

-- name: unsure
-- Deliveries with a channel that somebody has to decide on.
select distinct job from duework_delivery
where state = 'unsure' and job < :before
order by job desc
limit :wanted

-- name: recent
-- The newest channels with what is known of their deliveries; a delivery may be cut at the end.
select d.job, d.channel, d.state, d.error, d.settled, d.sends, j.task, j.key, j.state
from (select job, channel, state, error, settled, sends
      from duework_delivery
      where job < :before
      order by job desc, channel
      limit :wanted) d
left join duework_job j on j.id = d.job
order by d.job desc, d.channel

-- name: decide
-- What failed may be sent again, by a retry of the delivery by hand.
update duework_delivery
set state = :state, error = :error, given_up = :given_up, concluded = :concluded, settled = :now
where job = :job and channel = :channel and state = 'unsure'

-- name: judge_anew
update duework_delivery set concluded = 0 where job = :job and state = 'failed'

-- name: concluded
update duework_delivery set concluded = 1 where job = :job and state = 'failed'

-- name: payload_of
select payload from duework_job where id = :job

-- name: begun
select state, child, key, send_started, sends
from duework_delivery
where job = :job and channel = :channel

-- name: start_send
update duework_delivery
set state = 'sending', settled = null, send_started = :now, sends = sends + 1
where job = :job and channel = :channel

-- name: forget_start
-- It is known that nothing was sent.
update duework_delivery
set send_started = null
where job = :job and channel = :channel and child = :child and state = 'sending'

-- name: forget_starts
-- The same of sends whose worker died before anything had left.
update duework_delivery
set send_started = null
where job in (select cast(substr(owner, 10) as bigint) from duework_job
              where id in (select value from json_each(:ids)) and owner like 'delivery:%')
  and child in (select value from json_each(:ids)) and state = 'sending'

-- name: outcome
update duework_delivery
set state = :state, error = :error, given_up = :given_up, settled = :now
where job = :job and channel = :channel and child = :child and state = 'sending'

-- name: waits
-- Why it is still not sent.
update duework_delivery
set error = :error
where job = :job and channel = :channel and child = :child and state = 'sending'

-- name: lock_delivery
-- Two channels that settle at the same time wait here: the second one sees that it is the last.
select state, worker from duework_job where id = :job /*+ for update */

-- name: under_way
select channel, child, send_started from duework_delivery where job = :job and state = 'sending'

-- name: to_look_at
select d.job, d.channel, j.state, j.due
from duework_delivery d
left join duework_job j on j.id = d.job
where d.due <= :now
order by d.due
limit :wanted

-- name: look_again
update duework_delivery set due = :due where job = :job and channel = :channel

-- name: delete
delete from duework_delivery where job = :job and channel = :channel
