-- Quiet hours, repeats until somebody says done, what receivers answered, and how well they do.

alter table reminders_reminder add column quiet text;           -- '22:00-07:00' on the wall of its zone
alter table reminders_reminder add column quiet_until bigint;   -- its fire waits for the end of those
alter table reminders_reminder add column nag_ms bigint;        -- again after so long, until it is done
alter table reminders_reminder add column nags bigint not null default 0;
alter table reminders_reminder add column open_slot bigint;     -- the fire that waits for its "done"

alter table reminders_endpoint add column contact text;         -- who is told before it is switched off
alter table reminders_endpoint add column failures bigint not null default 0;   -- in a row
alter table reminders_endpoint add column warned_at bigint;

alter table reminders_history add column body text;             -- what its webhook says, to be replayed
alter table reminders_history add column waited bigint not null default 0;  -- for quiet hours to end
alter table reminders_history add column done_at bigint;        -- somebody said so

-- One row for each call of a receiver: the fire's, a replay, a test.
create table reminders_attempt (
    id text primary key,
    kind text not null check (kind in ('send', 'replay', 'test')),
    job bigint,                         -- of the fire
    endpoint text not null,
    webhook_id text not null,
    at bigint not null,
    took_ms bigint not null,
    status bigint,                      -- null: no answer
    error text,
    answer text                         -- the first 2 KiB of what it said
);

create index reminders_attempt_at on reminders_attempt (at);
create index reminders_attempt_endpoint on reminders_attempt (endpoint, at);
create index reminders_attempt_job on reminders_attempt (job) where job is not null;

-- What holds for a receiver of mails, whoever made the reminder.
create table reminders_recipient (
    address text primary key,           -- in small letters
    zone text not null,
    quiet text,                         -- for reminders that have no quiet hours of their own
    muted_until bigint,                 -- nothing is sent before
    updated_at bigint not null
);
