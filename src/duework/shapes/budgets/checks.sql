-- The invariants of budgets.

-- name: of_budgets
select count(*) from duework_budget

-- name: of_spends
select count(*) from duework_spend

-- name: budget_equals_ledger
-- Of: budgets
-- Says: a budget is the sum of its ledger in the present period, spent and reserved
select b.name
from duework_budget b
where b.spent <> (select coalesce(sum(s.amount), 0) from duework_spend s
                  where s.budget = b.name and s.period = b.period and s.state in ('settled', 'assumed'))
   or b.reserved <> (select coalesce(sum(s.amount), 0) from duework_spend s
                     where s.budget = b.name and s.period = b.period and s.state = 'reserved')
limit :bound

-- name: spend_has_ended
-- Of: spends
-- Says: a spend has an end unless it is reserved, and one that was released is nothing
select id
from duework_spend
where (state = 'reserved') <> (ended is null) or amount < 0 or (state = 'released' and amount <> 0)
limit :bound
