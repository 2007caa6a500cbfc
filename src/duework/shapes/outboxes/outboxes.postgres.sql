-- Where PostgreSQL needs another text than outboxes.sql, and why.

-- name: polled
-- Differs: a parameter that is only compared with null has no type by itself.
update duework_outbox
set polls = polls + 1, polled = :now, error = :error,
    errors = case when :error::text is null then 0 else errors + 1 end
where id = :id and job = :job and state = 'sending'
