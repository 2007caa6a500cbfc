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
order by id
limit 1

-- name: listed
select w.job, w.task, w.state, w.reason, w.started,
       (select count(*) from duework_step s where s.job = w.job and s.state = 'done')
from duework_workflow w
where w.job < :before and (:state = '' or w.state = :state)
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
