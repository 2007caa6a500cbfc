-- The statements of steps. Rows of a workflow are written by the attempt that holds its job, and by the
-- end of a job that one of its steps waits for. A row that has ended is never written again.

-- name: workflow
select state, call, reason, task, started from duework_workflow where job = :job

-- name: of_job
select place, name, kind, state, fence, failures, due, event, key, signal, child, result, error, started, ended
from duework_step
where job = :job
order by place

-- name: open
insert into duework_workflow (job, task, call, state, started, due)
values (:job, :task, :call, 'running', :now, :due)
on conflict (job) do update set state = 'running', reason = null, call = excluded.call

-- name: moved
update duework_workflow set state = :state, reason = :reason where job = :job

-- name: keep_heard
-- What one run of a job has taken, the next one does not take again.
insert into duework_heard (job, event, key, signal)
select job, event, key, max(signal) from duework_step
where job = :job and signal is not null
group by job, event, key
on conflict (job, event, key) do update set signal = excluded.signal

-- name: forget
delete from duework_step where job = :job

-- name: record
-- By the attempt that holds the job; what has ended stays as it is.
insert into duework_step (job, place, name, kind, state, fence, failures, due, event, key, signal, child,
                          result, error, started, ended)
values (:job, :place, :name, :kind, :state, :fence, :failures, :due, :event, :key, :signal, :child,
        :result, :error, :started, :ended)
on conflict (job, place) do update
set state = excluded.state, fence = excluded.fence, failures = excluded.failures, due = excluded.due,
    signal = excluded.signal, child = excluded.child, result = excluded.result, error = excluded.error,
    ended = excluded.ended
where duework_step.ended is null

-- name: child_ended
update duework_step
set state = :state, result = :result, error = :error, ended = :now
where job = :job and place = :place and child = :child and ended is null

-- name: still_waits
select ended from duework_step where job = :job and place = :place
/*+ for update */

-- name: lock_topic
insert into duework_signalled (event, key, changed) values (:event, :key, :now)
on conflict (event, key) do update set changed = excluded.changed

-- name: last_told
select id from duework_signal where event = :event and key = :key order by id desc limit 1

-- name: tell
insert into duework_signal (id, event, key, payload, at) values (:id, :event, :key, :payload, :at)

-- name: waiting
select job from duework_step
where event = :event and key = :key and state = 'waiting'
order by job

-- name: heard
-- The first one that came after the job, and after the last one that it has taken.
select id, payload from duework_signal
where event = :event and key = :key and id >= :since
  and id > coalesce((select max(signal) from duework_step
                     where job = :job and event = :event and key = :key), 0)
  and id > coalesce((select signal from duework_heard
                     where job = :job and event = :event and key = :key), 0)
order by id
limit 1

-- name: listed
-- One that runs as far as its steps go may have failed, or been cancelled, as a job.
select w.job, w.task, w.shown, w.reason, w.started,
       (select count(*) from duework_step s where s.job = w.job and s.state = 'done')
from (select f.job, f.task, f.reason, f.started,
             case when f.state = 'running' and j.state in ('failed', 'cancelled') then j.state
                  else f.state end as shown
      from duework_workflow f
      left join duework_job j on j.id = f.job
      where f.job < :before) w
where :state = '' or w.shown = :state
order by w.job desc
limit :wanted

-- name: copy_workflow
insert into duework_workflow (job, task, call, state, started, due)
select :new, task, call, 'running', :now, :due from duework_workflow where job = :job

-- name: copy_steps
insert into duework_step (job, place, name, kind, state, fence, failures, due, event, key, signal, child,
                          result, error, started, ended)
select :new, place, name, kind, state, 0, failures, due, event, key, signal, child, result, error, started, ended
from duework_step
where job = :job and place < :place

-- name: over
select w.job, j.id
from duework_workflow w
left join duework_job j on j.id = w.job
where w.due <= :now
order by w.due
limit :wanted

-- name: look_again
update duework_workflow set due = :due where job in (select value from json_each(:ids))

-- name: drop_steps
delete from duework_step where job in (select value from json_each(:ids))

-- name: drop_heard
delete from duework_heard where job in (select value from json_each(:ids))

-- name: drop_workflows
delete from duework_workflow where job in (select value from json_each(:ids))

-- name: drop_signals
delete from duework_signal
where id in (select id from duework_signal where at <= :until order by at limit :wanted)
returning id

-- name: drop_topics
-- Nobody waits for it; whoever begins to makes it again.
delete from duework_signalled
where changed <= :until
  and not exists (select 1 from duework_step s
                  where s.event = duework_signalled.event and s.key = duework_signalled.key and s.state = 'waiting')
