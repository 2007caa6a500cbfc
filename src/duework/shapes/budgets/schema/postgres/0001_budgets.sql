-- Amounts are whole millionths. A budget's row is the sum of its ledger in the present period.
create table duework_budget (
    name text primary key,
    declared bigint not null,           -- the limit that the code says
    most bigint not null,               -- the limit that holds: somebody may have raised it
    per text not null,
    tz text not null,
    period bigint not null,             -- when the present one began
    turn bigint not null,               -- and when it ends
    spent bigint not null,
    reserved bigint not null
);

-- The ledger.
create table duework_spend (
    id bigint primary key,
    budget text not null,
    period bigint not null,             -- the one that it counts in
    amount bigint not null,
    state text not null,                -- reserved, settled, released, assumed
    note text not null,
    at bigint not null,
    until bigint not null,              -- a reservation that is older is settled as it is
    ended bigint
);
create index duework_spend_period on duework_spend (budget, period);
create index duework_spend_at on duework_spend (at);
create index duework_spend_open on duework_spend (until) where state = 'reserved';

-- Jobs that wait for the period's turn, or for somebody to raise the limit.
create table duework_budget_waiter (
    budget text not null,
    job bigint not null,
    period bigint not null,
    primary key (budget, job)
);
