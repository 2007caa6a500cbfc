-- Every statement of chains. A chain's row is locked after the row of its page's job, by every transaction.

-- name: new
-- Nothing is returned if the key is taken by an active chain of the task.
insert into duework_chain (id, task, key, payload, queue, priority, size, started, due)
values (:id, :task, :key, :payload, :queue, :priority, :size, :started, :due)
on conflict (task, key) where state = 'active' and key is not null do nothing
returning id

-- name: active_by_key
select id from duework_chain
where task = :task and key = :key and state = 'active' and key is not null

-- name: look
select id, task, key, state, payload, queue, priority, size, cursor, number, completed, counts,
       expected, finishing, error, started, settled, due
from duework_chain
where id = :id

-- name: lock
-- The same, and nobody else changes it until this transaction has ended.
select id, task, key, state, payload, queue, priority, size, cursor, number, completed, counts,
       expected, finishing, error, started, settled, due
from duework_chain
where id = :id
/*+ for update */

-- name: rewrite
-- Everything about a chain that changes.
update duework_chain
set state = :state, size = :size, cursor = :cursor, number = :number, completed = :completed,
    counts = :counts, expected = :expected, finishing = :finishing, error = :error,
    settled = :settled, due = :due
where id = :id

-- name: newest
select id, task, key, state, payload, queue, priority, size, cursor, number, completed, counts,
       expected, finishing, error, started, settled, due
from duework_chain
where id < :before and (:task = '' or task = :task)
order by id desc
limit :wanted

-- name: newest_of_state
select id, task, key, state, payload, queue, priority, size, cursor, number, completed, counts,
       expected, finishing, error, started, settled, due
from duework_chain
where state = :state and id < :before and (:task = '' or task = :task)
order by id desc
limit :wanted

-- name: newest_of_key
select id, task, key, state, payload, queue, priority, size, cursor, number, completed, counts,
       expected, finishing, error, started, settled, due
from duework_chain
where key = :key and key is not null and id < :before
  and (:task = '' or task = :task) and (:state = '' or state = :state)
order by id desc
limit :wanted

-- name: new_page
insert into duework_page (chain, number, job, cursor, size, created)
values (:chain, :number, :job, :cursor, :size, :created)

-- name: page
select number, job, state, cursor, size
from duework_page
where chain = :chain and number = :number

-- name: settle_page
update duework_page
set state = :state, counts = :counts, quota = :quota, failures = :failures, error = :error,
    started = :started, settled = :settled
where chain = :chain and number = :number

-- name: page_again
-- The error stays on record until the page has settled again.
update duework_page
set state = :state, job = :job, settled = case when :state = 'open' then null else settled end
where chain = :chain and number = :number

-- name: begin
-- All that a page is told when it starts; read by whoever runs its job.
select p.number, p.state, p.cursor, p.size, c.id as chain, c.state as chain_state, c.counts, c.key,
       c.finishing
from duework_page p
join duework_chain c on c.id = p.chain
where p.job = :job

-- name: pages
-- A part of a chain's pages, with what the job of an open one knows better.
select p.number, p.state, p.cursor, p.size, p.counts, p.quota, p.job,
       case when p.state = 'open' then coalesce(j.failures, p.failures) else p.failures end,
       case when p.state = 'open' then coalesce(j.error, p.error) else p.error end,
       p.created, p.started, p.settled, j.due, j.worker
from duework_page p
left join duework_job j on j.id = p.job and p.state = 'open'
where p.chain = :chain and p.number > :after
order by p.number
limit :wanted

-- name: over
-- Chains whose retention has ended.
select id from duework_chain
where state <> 'active' and due <= :now
order by due
limit :wanted
/*+ for update skip locked */

-- name: delete_pages
delete from duework_page where chain in (select value from json_each(:ids))

-- name: delete_chains
delete from duework_chain where id in (select value from json_each(:ids))
