-- The statements of budgets. Ledger rows are locked before budgets, by id, and budgets by name.

-- name: bring_up
-- The row as it is now: a new period begins with nothing spent, and none begins again: clocks differ.
-- What the code says otherwise than the row is for `new_limit` and `new_period`.
insert into duework_budget (name, declared, most, per, tz, period, turn, spent, reserved)
values (:name, :limit, :limit, :per, :tz, :period, :turn, 0, 0)
on conflict (name) do update
set spent = case when excluded.period > duework_budget.period then 0 else duework_budget.spent end,
    reserved = case when excluded.period > duework_budget.period then 0 else duework_budget.reserved end,
    turn = case when excluded.period > duework_budget.period then excluded.turn
                else duework_budget.turn end,
    period = case when excluded.period > duework_budget.period then excluded.period
                  else duework_budget.period end
returning period, turn, most, spent, reserved, declared, per, tz

-- name: terms
select declared, per, tz from duework_budget where name = :name

-- name: new_limit
update duework_budget set declared = :limit, most = :limit where name = :name

-- name: into_period
-- What was spent since the period began that holds from now on.
update duework_spend set period = :period
where budget = :name and at >= :period and period <> :period

-- name: new_period
update duework_budget
set per = :per, tz = :tz, period = :period, turn = :turn,
    spent = (select coalesce(sum(s.amount), 0) from duework_spend s
             where s.budget = :name and s.period = :period and s.state in ('settled', 'assumed')),
    reserved = (select coalesce(sum(s.amount), 0) from duework_spend s
                where s.budget = :name and s.period = :period and s.state = 'reserved')
where name = :name

-- name: take
update duework_budget
set reserved = reserved + :amount
where name = :name and spent + reserved + :amount <= most
returning name

-- name: enter
insert into duework_spend (id, budget, period, amount, state, note, at, until)
values (:id, :budget, :period, :amount, 'reserved', :note, :at, :until)

-- name: entries
select id, budget, period, amount, state from duework_spend
where id in (select value from json_each(:ids))
order by id
/*+ for update */

-- name: end_entry
update duework_spend set amount = :amount, state = :state, ended = :now where id = :id

-- name: add_up
-- What counts in a period that is over changes its ledger only.
update duework_budget
set spent = spent + :spent, reserved = reserved + :reserved
where name = :name and period = :period
returning most - spent - reserved

-- name: left_open
select id from duework_spend
where state = 'reserved' and until <= :now
order by until
limit :wanted

-- name: lock
select period, turn, most, spent, reserved from duework_budget where name = :name
/*+ for update */

-- name: raise_to
update duework_budget set most = :limit where name = :name
returning period

-- name: wait
insert into duework_budget_waiter (budget, job, period) values (:name, :job, :period)
on conflict (budget, job) do update set period = excluded.period

-- name: waiters
delete from duework_budget_waiter where budget = :name
returning job, period

-- name: some_waiters
-- The oldest of this period.
delete from duework_budget_waiter
where budget = :name
  and job in (select w.job from duework_budget_waiter w
              where w.budget = :name and w.period = :period order by w.job limit :wanted)
returning job

-- name: drop_waiters
-- Their period is over, and so is what they waited for.
delete from duework_budget_waiter
where exists (select 1 from duework_budget b
              where b.name = duework_budget_waiter.budget and b.period <> duework_budget_waiter.period)

-- name: listed
select name, declared, most, per, tz, period, turn, spent, reserved
from duework_budget
where name > :after and substr(name, 1, length(:prefix)) = :prefix
order by name
limit :wanted

-- name: ledger
select id, budget, period, amount, state, note, at, ended
from duework_spend
where budget = :name and id < :before
order by id desc
limit :wanted

-- name: drop_entries
-- Those of the present period stay, however long it is that nobody has reserved anything.
delete from duework_spend
where id in (select s.id from duework_spend s
             where s.at <= :until and s.state <> 'reserved'
               and not exists (select 1 from duework_budget b where b.name = s.budget and b.period = s.period)
             order by s.at limit :wanted)
returning id
