-- Templates, attachments, which provider was tried with what, and what providers and tenants tell each other.

create table mailroom_template (
    tenant text not null,
    name text not null,
    subject text not null,
    body text not null,                 -- plain text; may be empty
    html text not null,                 -- may be empty
    updated bigint not null,
    primary key (tenant, name)
);

-- Attachments, by what they are: the same bytes of one tenant are stored once.
create table mailroom_blob (
    id text primary key,
    tenant text not null,
    type text not null,
    size bigint not null,
    content text not null,              -- base64
    created bigint not null,
    used bigint not null                -- when a message last asked for it
);
create index mailroom_blob_used on mailroom_blob (used);

-- One row for each provider that a message was offered to, written before it is offered.
create table mailroom_try (
    key text not null,                  -- the key under which it was offered
    provider text not null,
    ref text not null,                  -- by which the provider's reports name it
    state text not null check (state in ('trying', 'refused')),     -- refused: known not to have it
    tries bigint not null,
    first_at bigint not null,
    last_at bigint not null,
    error text,
    primary key (key, provider)
);
create index mailroom_try_ref on mailroom_try (ref);
create index mailroom_try_last on mailroom_try (last_at);

-- What providers report after the fact, and what was told to tenants.
create table mailroom_event (
    id text primary key,                -- the report's own, so that each is taken once
    key text not null,
    tenant text not null,
    at bigint not null,
    what text not null,                 -- delivered, bounced, complained, …
    address text not null,
    detail text
);
create index mailroom_event_key on mailroom_event (key, at);
create index mailroom_event_at on mailroom_event (at);

-- Where a tenant wants to be told what became of its mail; its secret is sealed.
create table mailroom_hook (
    tenant text primary key,
    url text not null,
    seen bigint not null,               -- what settled before this was told
    created bigint not null
);

-- The same view as before, on what the engine promises to keep.
drop view mailroom_queue;
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
    submits,
    polls,
    created,
    accepted,
    polled,
    settled,
    due
from duework_messages_v1
where outbox = 'mailroom.mail';
