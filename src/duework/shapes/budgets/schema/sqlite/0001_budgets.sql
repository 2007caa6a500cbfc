-- Amounts are whole millionths. A budget's row is the sum of its ledger in the present period.
create table duework_budget (
    name text primary key,
    declared integer not null,           -- the limit that the code says
    most integer not null,               -- the limit that holds: somebody may have raised it
    per text not null,
    tz text not null,
    period integer not null,             -- when the present one began
    turn integer not null,               -- and when it ends
    spent integer not null,
    reserved integer not null
) strict, without rowid;

-- The ledger.
create table duework_spend (
    id integer primary key,
    budget text not null,
    period integer not null,             -- the one that it counts in
    amount integer not null,
    state text not null,                -- reserved, settled, released, assumed
    note text not null,
    at integer not null,
    until integer not null,              -- a reservation that is older is settled as it is
    ended integer
) strict;
create index duework_spend_period on duework_spend (budget, period);
create index duework_spend_at on duework_spend (at);
create index duework_spend_open on duework_spend (until) where state = 'reserved';

-- Jobs that wait for the period's turn, or for somebody to raise the limit.
create table duework_budget_waiter (
    budget text not null,
    job integer not null,
    period integer not null,
    primary key (budget, job)
) strict, without rowid;
