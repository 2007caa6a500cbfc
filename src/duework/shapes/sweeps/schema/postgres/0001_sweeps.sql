-- One row for each sweep; `job` is its sweeper, and `current` what it is at: `round`, or `=` and an item that runs alone.
create table duework_sweep (
    name text primary key,
    state text not null,
    job bigint,
    queue text not null,
    priority bigint not null,
    current text,
    rounds bigint not null default 0,
    done bigint not null default 0,
    failed bigint not null default 0,
    last_at bigint,
    created bigint not null
);

-- Items that went wrong, until they go well or are forgotten: they are left alone until `next_try`.
create table duework_sweep_item (
    sweep text not null,
    key text not null,
    failures bigint not null,
    next_try bigint not null,
    error text,
    changed bigint not null,
    primary key (sweep, key)
);

create index duework_sweep_item_try on duework_sweep_item (sweep, next_try);
create index duework_sweep_item_old on duework_sweep_item (changed);
