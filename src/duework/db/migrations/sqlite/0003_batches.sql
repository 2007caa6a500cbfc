-- Batches: one row that counts how the jobs of one call end, written by the settle itself.
--
-- Members are found by `duework_job.batch`. The counters always equal a recount of the members, plus
-- those in `gone`, whose rows are deleted. No constraint says so: a row that was damaged must not keep its
-- members from ending, and `verify` finds it.

create table duework_batch (
    id integer primary key,
    name text not null,
    key text,
    task text not null,
    total integer not null,
    done integer not null default 0,
    failed integer not null default 0,
    cancelled integer not null default 0,
    gone integer not null default 0,   -- settled members whose rows are not kept any more
    keep integer,                      -- how long it is kept once settled; null is for ever
    due integer not null,              -- kept until; for ever while a member is open
    created integer not null,
    settled integer,                   -- when the last member ended
    fired integer not null default 0, -- the follow-up is enqueued
    then_job integer,                  -- its id, drawn beforehand: there cannot be two
    then_lane integer,
    then_task text,
    then_payload text,
    then_delay integer,
    then_expires integer
) strict;

create unique index duework_batch_key on duework_batch (key) where key is not null;
create index duework_batch_name on duework_batch (name);
create index duework_batch_due on duework_batch (due);
