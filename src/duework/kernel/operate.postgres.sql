-- Where PostgreSQL needs another text.

-- name: in_order
-- Differs: the planner may think that to read all rows and to sort them is quicker; until the end of the transaction
-- it does so only where it has to.
select set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true)
