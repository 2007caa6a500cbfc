-- Keys of tenants, by which a program posts mail. The key itself is nowhere: this is its hash.
create table mailroom_key (
    hash text not null primary key,
    tenant text not null,
    name text not null,
    created bigint not null
);
create index mailroom_key_tenant on mailroom_key (tenant, name);

-- The article's table "Queue", to read: every message with what became of it, and whose it is.
create view mailroom_queue as
select
    id,
    message as payload,
    state as status,
    case when submits > 1 then submits - 1 else 0 end as retries,
    handle as "operationUrl",
    error,
    lane as tenant,
    key,
    job,
    round,
    submits,
    polls,
    created,
    accepted,
    polled,
    settled
from duework_outbox
where outbox = 'mailroom.mail';
