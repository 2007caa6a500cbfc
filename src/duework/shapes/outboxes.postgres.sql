-- Where PostgreSQL needs another text than outboxes.sql, and why.

-- name: polled
-- Differs: a parameter that is only compared with null has no type by itself.
update duework_outbox
set polls = polls + 1, polled = :now, error = :error,
    errors = case when :error::text is null then 0 else errors + 1 end
where id = :id and job = :job and state = 'sending'

-- name: hold
-- Differs: locks in one order, and knows no `indexed by`.
update duework_lane
set due = :until, pace = null
where id in (select id from duework_lane
             where task in (:submit, :poll) and due < :until
             order by id for update)
