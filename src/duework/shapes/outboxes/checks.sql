-- The invariants of outboxes. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_messages
select count(*) from duework_outbox

-- name: message_moves
-- Of: messages
-- Says: a message that is not settled has a job that moves it
-- A message that is not settled has an open job, of its own outbox, that moves it.
select o.id
from duework_outbox o
left join duework_job j on j.id = o.job and j.state = 'open'
     and j.task = o.outbox || case o.state when 'queued' then '.submit' else '.poll' end
where o.state in ('queued', 'sending') and j.id is null
limit :bound

-- name: message_was_submitted
-- Of: messages
-- Says: a message that was sent was submitted before
-- Nothing was taken by the other side, or may have been, without a submit before it.
select id from duework_outbox
where submits = 0 and (state in ('sending', 'sent') or unsure_since is not null)
limit :bound

-- name: message_has_handle
-- Of: messages
-- Says: a message is sending once its handle is known
select id from duework_outbox
where state = 'sending' and (handle is null or accepted is null)
limit :bound
