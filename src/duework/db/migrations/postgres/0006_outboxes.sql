-- Outboxes: one row for each message, from the enqueue to what became of it.

create table duework_outbox (
    id bigint primary key,
    outbox text not null,
    key text not null,                  -- for the other side; saved before the first submit
    message text not null,
    state text not null
        check (state in ('queued', 'sending', 'sent', 'failed', 'unsure', 'cancelled')),
    job bigint not null,               -- the job that submits or polls it, or did last
    queue text not null,
    priority smallint not null,
    lane text not null,
    round bigint not null default 0,   -- raised when it is retried after the other side rejected it
    handle text,                        -- by which the other side can be asked about it
    submits bigint not null default 0,
    polls bigint not null default 0,
    errors bigint not null default 0,  -- polls that failed since the last one that did not
    unsure_since bigint,               -- the first submit of which nobody knows the outcome
    error text,
    created bigint not null,
    accepted bigint,
    polled bigint,
    settled bigint,
    due bigint not null,               -- settled: kept until; else: when to look whether it moves
    check ((state in ('queued', 'sending')) = (settled is null))
);
create unique index duework_outbox_key on duework_outbox (outbox, key);
create index duework_outbox_state on duework_outbox (outbox, state, id);
create index duework_outbox_due on duework_outbox (due);

-- The lanes of one outbox, which may be many among more: the other side wants all of them to wait.
create index duework_lane_task on duework_lane (task);
