-- Deliveries: one row for each channel that the body of a delivery has chosen.

create table duework_delivery (
    job integer not null,               -- the delivery
    channel text not null,
    key text not null,                  -- for the other side; the same over all sends
    payload text not null,
    state text not null check (state in ('sending', 'sent', 'failed', 'unsure')),
    child integer not null,             -- the job that sends, or did last
    sends integer not null default 0,
    marked integer,                     -- a send has begun; while sending: with no outcome so far
    given_up integer not null default 0,   -- it failed in a way that another try would not change
    concluded integer not null default 0,  -- the delivery has counted this failure
    error text,
    expires integer,
    settled integer,
    due integer not null,               -- when to look whether the delivery is still there
    primary key (job, channel),
    check ((state = 'sending') = (settled is null))
) strict, without rowid;
create index duework_delivery_due on duework_delivery (due);
create index duework_delivery_unsure on duework_delivery (job) where state = 'unsure';
