-- The invariants of deliveries. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_channels
select count(*) from duework_delivery

-- name: delivery_moves
-- Of: channels
-- Says: a channel that is being sent has an open job that sends it
-- A channel that is being sent has an open job that sends it. Its delivery would look after it only
-- much later, and then it is not known any more what became of it.
select d.job
from duework_delivery d
left join duework_job c on c.id = d.child and c.state = 'open'
where d.state = 'sending' and c.id is null
limit :bound

-- name: delivery_was_started
-- Of: channels
-- Says: a send was committed as started before it was sent
-- Nothing was sent, or may have been, without a start that was committed before.
select job from duework_delivery
where state in ('sent', 'unsure') and (send_started is null or sends = 0)
limit :bound
