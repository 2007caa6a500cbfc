-- What the housekeeping deletes, and when it is due again.

-- name: over
-- Settled rows whose retention has ended.
select id, state, batch from duework_job
where state <> 'open' and due <= :now
order by due
limit :wanted
/*+ for update skip locked */

-- name: over_next
-- Those that end next, and since when they are kept.
select due, settled from duework_job
where state <> 'open'
order by due
limit :wanted

-- name: waiting_by_key
-- The open job of a key, if no worker holds it or is about to.
select id, due from duework_job
where task = :task and key = :key and state = 'open' and key is not null and worker is null
/*+ for update skip locked */

-- name: keep_until
update duework_job set due = :due where id = :id

-- name: delete_once
-- A chunk of what is over; compared again, since the key may have been used meanwhile.
delete from duework_once
where (task, key) in (select task, key from duework_once
                      where until <= :now
                      order by until
                      limit :wanted)
  and until <= :now
returning job
