-- The invariants of chains. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_chains
select count(*) from duework_chain

-- name: of_open_jobs
select count(*) from duework_job where state = 'open'

-- name: of_pages
select count(*) from duework_page

-- name: chain_key_is_active_once
-- Of: chains
-- Says: a task has at most one active chain per key
select min(id) from duework_chain
where state = 'active' and key is not null
group by task, key
having count(*) > 1
limit :bound

-- name: chain_pages_are_gapless
-- Of: chains
-- Says: the pages of a chain are 1, 2, 3 and so on
-- 1 to the number of the newest one.
select c.id
from duework_chain c
left join duework_page p on p.chain = c.id
group by c.id, c.number
having count(p.number) <> c.number or min(p.number) <> 1 or max(p.number) <> c.number
limit :bound

-- name: chain_completed_is_a_recount
-- Of: chains
-- Says: a chain knows how many of its pages are done
-- All pages before the newest are done, and as many are done as the chain says.
select c.id
from duework_chain c
where c.completed not in (c.number, c.number - 1)
   or (select count(*) from duework_page p where p.chain = c.id and p.state = 'done') <> c.completed
   or (select count(*) from duework_page p
       where p.chain = c.id and p.state = 'done' and p.number <= c.completed) <> c.completed
limit :bound

-- name: chain_goes_on
-- Of: chains
-- Says: an active chain has an open job for its next page
-- An active chain has one page to do, whose job is open and starts where the last one ended; or only
-- its end, by the job of its last page.
select c.id
from duework_chain c
left join duework_page p on p.chain = c.id and p.number = c.number
left join duework_job j on j.id = p.job
where c.state = 'active'
  and (c.completed <> c.number - 1 + c.finishing
       or coalesce(p.state, '') <> case c.finishing when 1 then 'done' else 'open' end
       or coalesce(j.state, '') <> 'open' or coalesce(j.task, '') <> c.task
       or (c.finishing = 0 and coalesce(p.cursor, '') <> coalesce(c.cursor, ''))
       or coalesce(j.owner, '') <> 'chain:' || c.id)
limit :bound

-- name: chain_has_one_open_job
-- Of: open_jobs
-- Says: a chain has at most one open job
-- No other job does a page of it at the same time, active or not.
select min(id) from duework_job
where state = 'open' and owner like 'chain:%'
group by owner
having count(*) > 1
limit :bound

-- name: chain_done_is_complete
-- Of: chains
-- Says: all pages of a chain that is done are done
select id from duework_chain
where state = 'done' and completed <> number
limit :bound

-- name: page_of_chain
-- Of: pages
-- Says: a page belongs to a chain
select p.chain
from duework_page p
left join duework_chain c on c.id = p.chain
where c.id is null
limit :bound
