-- Deliveries: one row for each channel that the body of a delivery has chosen.

create table duework_delivery (
    job bigint not null,               -- the delivery
    channel text not null,
    key text not null,                  -- for the other side; the same over all sends
    payload text not null,
    state text not null check (state in ('sending', 'sent', 'failed', 'unsure')),
    child bigint not null,             -- the job that sends, or did last
    sends bigint not null default 0,
    marked bigint,                     -- a send has begun; while sending: with no outcome so far
    given_up smallint not null default 0,   -- it failed in a way that another try would not change
    concluded smallint not null default 0,  -- the delivery has counted this failure
    error text,
    expires bigint,
    settled bigint,
    due bigint not null,               -- when to look whether the delivery is still there
    primary key (job, channel),
    check ((state = 'sending') = (settled is null))
);
create index duework_delivery_due on duework_delivery (due);
create index duework_delivery_unsure on duework_delivery (job) where state = 'unsure';
