-- Times are in milliseconds. When a reminder fires next is not here: its schedule `reminders:<id>` knows.

create table reminders_endpoint (
    id text primary key,
    name text not null unique,
    url text not null,
    state text not null check (state in ('on', 'off')),
    reason text,                        -- why it was switched off
    old_until bigint,                   -- until when the secret before this one signs, too
    created_at bigint not null,
    updated_at bigint not null
);

create table reminders_reminder (
    id text primary key,
    title text not null,
    body text not null,
    channels text not null,             -- a JSON list
    email text,
    endpoint text,
    recurrence_rule text,               -- null: once
    zone text not null,
    state text not null check (state in ('active', 'failed')),
    last_fired_at bigint,
    last_job bigint,                    -- the job of its newest fire
    last_error text,
    revision bigint not null,           -- raised by every edit
    created_at bigint not null,
    updated_at bigint not null
);

create index reminders_reminder_endpoint on reminders_reminder (endpoint) where endpoint is not null;

-- One row for each fire, by the job that delivers it. It outlives its reminder.
create table reminders_history (
    job bigint primary key,
    reminder text not null,
    title text not null,
    key text not null,                  -- the key of its deliveries, before ":email" and ":webhook"
    channels text not null,             -- a JSON list
    slot bigint not null,
    fired_at bigint not null,
    settled_at bigint,
    outcome text not null check (outcome in ('sending', 'success', 'partial', 'failed', 'cancelled')),
    sent text not null,                 -- a JSON list of channels
    failed text not null,               -- a JSON object: channel and why
    unsure text not null,               -- the same
    error text
);

create index reminders_history_reminder on reminders_history (reminder, slot);
create index reminders_history_fired on reminders_history (fired_at);
