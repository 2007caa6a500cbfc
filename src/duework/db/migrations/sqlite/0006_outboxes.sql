-- Outboxes: one row for each message, from the enqueue to what became of it.

create table duework_outbox (
    id integer primary key,
    outbox text not null,
    key text not null,                  -- for the other side; saved before the first submit
    message text not null,
    state text not null
        check (state in ('queued', 'sending', 'sent', 'failed', 'unsure', 'cancelled')),
    job integer not null,               -- the job that submits or polls it, or did last
    queue text not null,
    priority integer not null,
    lane text not null,
    round integer not null default 0,   -- raised when it is retried after the other side rejected it
    handle text,                        -- by which the other side can be asked about it
    submits integer not null default 0,
    polls integer not null default 0,
    errors integer not null default 0,  -- polls that failed since the last one that did not
    unsure_since integer,               -- the first submit of which nobody knows the outcome
    error text,
    created integer not null,
    accepted integer,
    polled integer,
    settled integer,
    due integer not null,               -- settled: kept until; else: when to look whether it moves
    check ((state in ('queued', 'sending')) = (settled is null))
) strict;
create unique index duework_outbox_key on duework_outbox (outbox, key);
create index duework_outbox_state on duework_outbox (outbox, state, id);
create index duework_outbox_due on duework_outbox (due);

-- The lanes of one outbox, which may be many among more: the other side wants all of them to wait.
create index duework_lane_task on duework_lane (task);
