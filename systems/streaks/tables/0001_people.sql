-- People, what was found for each of their days, and what was promised to them.
-- Tokens are not here: they are sealed as streaks:github:ID, streaks:discord:ID and streaks:telegram:ID.

create table streaks_person (
    id text primary key,
    login text not null,
    -- In lower case: GitHub does not tell Ada from ada.
    login_key text not null unique,
    zone text not null,
    hour integer not null check (hour between 0 and 23),
    active integer not null default 1 check (active in (0, 1)),
    has_token integer not null default 0 check (has_token in (0, 1)),
    -- The id of the webhook; its token is sealed.
    discord_hook text,
    telegram_chat text,
    only_at_risk integer not null default 0 check (only_at_risk in (0, 1)),
    -- What GitHub, Discord or Telegram refused for good; nothing is tried again until it is changed.
    problem text,
    discord_problem text,
    telegram_problem text,
    -- Why the last check failed, if it did.
    last_error text,
    -- For exercises: a check that hangs or kills its own process.
    drill text check (drill in ('hang', 'die')),
    next_at bigint not null,
    -- The job that chose this person last.
    chosen_by bigint,
    created bigint not null
);

create index streaks_person_due on streaks_person (next_at)
where active = 1 and has_token = 1 and problem is null;

create index streaks_person_chosen on streaks_person (chosen_by);

create table streaks_day (
    person text not null,
    -- A date in the person's own zone.
    day text not null,
    contributions integer not null,
    streak integer not null,
    message text not null,
    checked bigint not null,
    primary key (person, day)
);

create table streaks_calendar (
    person text primary key,
    first text not null,
    counts text not null,
    longest integer not null
);

create table streaks_message (
    person text not null,
    day text not null,
    channel text not null,
    -- The delivery, and where it goes to: a webhook's id or a chat.
    job bigint not null,
    address text not null,
    text text not null,
    state text not null default 'promised'
        check (state in ('promised', 'sent', 'failed', 'unsure', 'cancelled')),
    error text,
    promised bigint not null,
    settled bigint,
    primary key (person, day, channel)
);

create index streaks_message_job on streaks_message (job);
