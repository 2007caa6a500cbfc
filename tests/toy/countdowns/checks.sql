-- The invariants of countdowns.

-- name: of_countdowns
select count(*) from duework_countdown

-- name: countdown_moves
-- Of: countdowns
-- Says: a countdown that runs has an open job that moves it
select c.id
from duework_countdown c
left join duework_job j on j.id = c.job and j.state = 'open'
where (c.state = 'running') <> (j.id is not null)
limit :bound
