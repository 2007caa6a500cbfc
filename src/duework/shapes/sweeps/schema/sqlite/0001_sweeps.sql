-- One row for each sweep; `job` is its sweeper, and `current` what it is at: `round`, or `=` and an item that runs alone.
create table duework_sweep (
    name text primary key,
    state text not null,
    job integer,
    queue text not null,
    priority integer not null,
    current text,
    rounds integer not null default 0,
    done integer not null default 0,
    failed integer not null default 0,
    last_at integer,
    created integer not null
) strict;

-- Items that went wrong, until they go well or are forgotten: they are left alone until `next_try`.
create table duework_sweep_item (
    sweep text not null,
    key text not null,
    failures integer not null,
    next_try integer not null,
    error text,
    changed integer not null,
    primary key (sweep, key)
) strict;

create index duework_sweep_item_try on duework_sweep_item (sweep, next_try);
create index duework_sweep_item_old on duework_sweep_item (changed);
