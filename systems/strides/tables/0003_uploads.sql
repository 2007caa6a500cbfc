-- A file that a form has sent: its content is a blob until it was taken in or refused.
create table strides_upload (
    id text primary key,
    athlete_id bigint not null references strides_athlete (id) on delete cascade,
    sent bigint not null,
    name text not null,
    size bigint not null,
    zone text not null,
    race integer not null check (race in (0, 1)),
    status text not null default 'waiting' check (status in ('waiting', 'taken', 'refused')),
    -- Why it was refused.
    reason text,
    -- Recordings of an archive that were read so far.
    done integer not null default 0,
    total integer not null default 0,
    added integer not null default 0,
    there_already integer not null default 0,
    races integer not null default 0,
    -- Files of an archive that are no recordings, and the first of them with their reasons, as JSON.
    left_out integer not null default 0,
    reasons text not null default '[]'
);
create index strides_upload_athlete on strides_upload (athlete_id, sent);
