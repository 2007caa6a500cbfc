-- An athlete's `token_ends` and all other times are milliseconds since 1970; `start` of an activity is
-- seconds, as Strava counts. The tokens themselves are sealed, under `strides.tokens:ID`.
create table strides_athlete (
    id bigint primary key,
    firstname text not null,
    lastname text not null,
    connected integer not null default 1 check (connected in (0, 1)),
    -- Why it is not connected.
    reason text,
    scopes text not null default '',
    token_ends bigint not null default 0,
    -- A refresh was sent at this time, and what came of it is not stored.
    refreshing bigint,
    joined bigint not null,
    sync_status text not null default 'idle'
        check (sync_status in ('idle', 'in_progress', 'completed', 'error')),
    -- How the last sync ended; `sync_status` calls one that was cancelled completed.
    sync_outcome text check (sync_outcome in ('done', 'failed', 'cancelled')),
    sync_error text,
    sync_session_id text,
    current_batch_number integer not null default 0,
    total_batches_expected integer,
    last_synced_at bigint,
    -- When the last sync that ended well had begun.
    last_started bigint,
    -- Raised by every end of a sync: a page that began before changes nothing of this row.
    sync_version integer not null default 0
);

create table strides_activity (
    athlete_id bigint not null references strides_athlete (id) on delete cascade,
    id bigint not null,
    start bigint not null,
    -- The day by the athlete's own wall clock.
    day text not null,
    name text not null,
    sport text not null,
    distance double precision not null,
    moving_time bigint not null,
    -- The sync that saw it last.
    seen bigint not null,
    primary key (athlete_id, id)
);
create index strides_activity_start on strides_activity (athlete_id, start);

create table strides_race (
    athlete_id bigint not null references strides_athlete (id) on delete cascade,
    strava_activity_id bigint not null,
    start bigint not null,
    date text not null,
    name text not null,
    distance double precision not null,
    distance_class text not null,
    elapsed_time bigint not null,
    moving_time bigint not null,
    elevation_gain double precision,
    average_heartrate double precision,
    max_heartrate double precision,
    polyline text,
    event_name text not null,
    is_hidden integer not null default 0 check (is_hidden in (0, 1)),
    -- What it was recognised by, for people.
    known_by text not null,
    -- The person has corrected or hidden it: no sync changes that, or deletes it.
    edited integer not null default 0 check (edited in (0, 1)),
    created_at bigint not null,
    seen bigint not null,
    primary key (athlete_id, strava_activity_id)
);
create index strides_race_start on strides_race (start);

-- An authorisation that was begun: good for one answer, and for ten minutes.
create table strides_state (
    state text primary key,
    redirect_uri text not null,
    made bigint not null
);

create table strides_log (
    session text not null,
    athlete_id bigint not null,
    at bigint not null,
    level text not null check (level in ('info', 'warning', 'error', 'success')),
    message text not null
);
create index strides_log_session on strides_log (session, at);
create index strides_log_at on strides_log (at);
