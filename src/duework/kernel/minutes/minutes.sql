-- Every statement on the counters of minutes. `span` is how many minutes a row sums: 1, or 15, or 0 for all of
-- time, whose row begins at 0 and is never deleted.

-- name: add
insert into duework_minute (span, start, queue, task, started, done, failed, cancelled, retried, lag,
                            lag_most, lag_10ms, lag_100ms, lag_1s, lag_10s, lag_1min, lag_more)
values (:span, :start, :queue, :task, :started, :done, :failed, :cancelled, :retried, :lag,
        :lag_most, :lag_10ms, :lag_100ms, :lag_1s, :lag_10s, :lag_1min, :lag_more)
on conflict (span, start, queue, task) do update
set started = duework_minute.started + excluded.started,
    done = duework_minute.done + excluded.done,
    failed = duework_minute.failed + excluded.failed,
    cancelled = duework_minute.cancelled + excluded.cancelled,
    retried = duework_minute.retried + excluded.retried,
    lag = duework_minute.lag + excluded.lag,
    lag_most = case when excluded.lag_most > duework_minute.lag_most then excluded.lag_most
                    else duework_minute.lag_most end,
    lag_10ms = duework_minute.lag_10ms + excluded.lag_10ms,
    lag_100ms = duework_minute.lag_100ms + excluded.lag_100ms,
    lag_1s = duework_minute.lag_1s + excluded.lag_1s,
    lag_10s = duework_minute.lag_10s + excluded.lag_10s,
    lag_1min = duework_minute.lag_1min + excluded.lag_1min,
    lag_more = duework_minute.lag_more + excluded.lag_more

-- name: since
-- What was counted from a time on, by slots of `step` milliseconds, oldest first.
select start / :step * :step, sum(started), sum(done), sum(failed), sum(cancelled), sum(retried), sum(lag),
       max(lag_most), sum(lag_10ms), sum(lag_100ms), sum(lag_1s), sum(lag_10s), sum(lag_1min),
       sum(lag_more)
from duework_minute
where span = :span and start >= :since
group by start / :step
order by start / :step

-- name: by_queue
-- How many jobs of each queue ended, by slots of `step` milliseconds.
select queue, start / :step * :step, sum(done), sum(failed)
from duework_minute
where span = :span and start >= :since
group by queue, start / :step

-- name: of_lines
-- The same columns as `since`, for one queue, or for some tasks, or for all of either.
select start / :step * :step, sum(started), sum(done), sum(failed), sum(cancelled), sum(retried), sum(lag),
       max(lag_most), sum(lag_10ms), sum(lag_100ms), sum(lag_1s), sum(lag_10s), sum(lag_1min),
       sum(lag_more)
from duework_minute
where span = :span and start >= :since
  and (:queue = '' or queue = :queue)
  and (:every = 1 or task in (select value from json_each(:tasks)))
group by start / :step
order by start / :step

-- name: done_by_task
-- What was done with each task from a time on, by slots of `step` milliseconds that are counted from there.
select queue, task, (start - :since) / :step, sum(done), sum(failed)
from duework_minute
where span = :span and start >= :since
group by queue, task, (start - :since) / :step

-- name: totals
select queue, task, started, done, failed, cancelled, retried, lag, lag_most, lag_10ms, lag_100ms, lag_1s,
       lag_10s, lag_1min, lag_more
from duework_minute
where span = 0 and start = 0
order by queue, task

-- name: forget
-- Rows of before a time, a chunk at a time.
delete from duework_minute
where (span, start, queue, task) in (
    select span, start, queue, task from duework_minute
    where span = :span and start < :before
    order by span, start, queue, task
    limit :wanted)
