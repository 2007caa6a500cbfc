-- Batches: one row that counts how the jobs of one call end, written by the settle itself.
--
-- Members are found by `duework_job.batch`. The counters always equal a recount of the members, plus
-- those in `gone`, whose rows are deleted. No constraint says so: a row that was damaged must not keep its
-- members from ending, and `verify` finds it.

create table duework_batch (
    id bigint primary key,
    name text not null,
    key text,
    task text not null,
    total bigint not null,
    done bigint not null default 0,
    failed bigint not null default 0,
    cancelled bigint not null default 0,
    gone bigint not null default 0,   -- settled members whose rows are not kept any more
    keep bigint,                      -- how long it is kept once settled; null is for ever
    due bigint not null,              -- kept until; for ever while a member is open
    created bigint not null,
    settled bigint,                   -- when the last member ended
    fired smallint not null default 0, -- the follow-up is enqueued
    then_job bigint,                  -- its id, drawn beforehand: there cannot be two
    then_lane bigint,
    then_task text,
    then_payload text,
    then_delay bigint,
    then_expires bigint
) with (fillfactor = 50);

create unique index duework_batch_key on duework_batch (key) where key is not null;
create index duework_batch_name on duework_batch (name, id);
create index duework_batch_due on duework_batch (due);
