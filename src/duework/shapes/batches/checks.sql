-- The invariants of batches. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_batches
select count(*) from duework_batch

-- name: of_members
select count(*) from duework_job where batch is not null

-- name: batch_counts
-- Of: batches
-- Says: the counters of a batch equal a recount of its members
-- Its counters are what a recount of its members gives, those counted whose rows are gone.
select b.id
from duework_batch b
left join (select batch, count(*) as kept,
                  sum(case when state = 'open' then 1 else 0 end) as still_open,
                  sum(case when state = 'done' then 1 else 0 end) as done,
                  sum(case when state = 'failed' then 1 else 0 end) as failed,
                  sum(case when state = 'cancelled' then 1 else 0 end) as cancelled
           from duework_job
           where batch is not null
           group by batch) m on m.batch = b.id
where coalesce(m.kept, 0) <> b.total - b.gone
   or coalesce(m.still_open, 0) <> b.total - b.done - b.failed - b.cancelled
   or m.done > b.done or m.failed > b.failed or m.cancelled > b.cancelled
limit :bound

-- name: batch_settles
-- Of: batches
-- Says: a batch is settled, and followed up, when no member is open
-- It is settled if and only if no member is open, is kept until then, and then has its follow-up.
select id from duework_batch
where (settled is null) <> (done + failed + cancelled < total)
   or (settled is null and due < :forever)
   or (settled is not null and fired = 0)
limit :bound

-- name: batch_exists
-- Of: members
-- Says: a member belongs to a batch
select j.id
from duework_job j
left join duework_batch b on b.id = j.batch
where j.batch is not null and b.id is null
limit :bound
