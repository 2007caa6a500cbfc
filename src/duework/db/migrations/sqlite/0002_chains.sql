-- Chains: work that goes through pages, one after the other, each from where the last one ended.

create table duework_chain (
    id integer primary key,
    task text not null,
    key text,
    state text not null default 'active' check (state in ('active', 'done', 'failed', 'cancelled')),
    payload text not null,
    queue text not null,
    priority integer not null,
    size integer not null,                -- of the next page
    cursor text,                          -- where the page after the last completed one starts
    number integer not null default 1,    -- of the newest page
    completed integer not null default 0, -- pages that are done: 1 to this
    counts text not null default '{}',    -- of these, summed
    expected text,                        -- what a page said about the end
    finishing integer not null default 0, -- its last page is done, its end is not: it was cancelled meanwhile
    error text,
    started integer not null,
    settled integer,
    due integer not null,                 -- kept until, once it is not active
    check ((state = 'active') = (settled is null))
) strict;

create unique index duework_chain_key on duework_chain (task, key)
    where state = 'active' and key is not null;
create index duework_chain_state on duework_chain (state, id);
create index duework_chain_keys on duework_chain (key, id) where key is not null;
create index duework_chain_kept on duework_chain (due) where state <> 'active';

create table duework_page (
    chain integer not null,
    number integer not null,
    job integer not null,
    state text not null default 'open' check (state in ('open', 'done', 'failed', 'cancelled')),
    cursor text,                          -- where it starts; null at the beginning
    size integer not null,
    counts text,
    quota text,
    failures integer not null default 0,
    error text,
    created integer not null,
    started integer,
    settled integer,
    primary key (chain, number)
) strict, without rowid;

create unique index duework_page_job on duework_page (job);
