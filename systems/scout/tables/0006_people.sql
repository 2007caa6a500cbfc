-- What people follow, star and share, and what has changed since they looked.

create table scout_tracked (
    keyword text primary key,
    since bigint not null,
    -- When it is looked at again.
    next_at bigint not null
);
create index scout_tracked_next on scout_tracked (next_at);

-- Who was found for a tracked keyword, each time that it was searched for.
create table scout_rank_history (
    keyword text not null,
    at bigint not null,
    track_id bigint not null,
    rank integer not null,
    primary key (keyword, at, track_id)
);
create index scout_rank_history_app on scout_rank_history (track_id, at);
create index scout_rank_history_age on scout_rank_history (at);

-- An app, an opportunity or a developer that somebody wants to find again, in a list of a name.
create table scout_star (
    kind text not null,
    ref text not null,
    list text not null default '',
    at bigint not null,
    primary key (kind, ref)
);
create index scout_star_newest on scout_star (at);

-- What somebody outside may see by a link; of the link only a hash is kept.
create table scout_report (
    id text primary key,
    hash text not null unique,
    cluster text not null,
    name text not null,
    body text not null,
    made_at bigint not null,
    expires_at bigint not null
);
create index scout_report_made on scout_report (made_at);

-- Opportunities as they were last told of, how their scores went, and what there was to tell.
create table scout_standing (
    cluster text primary key,
    name text not null,
    score double precision not null,
    place integer not null,
    verdict text not null
);
create table scout_score_history (
    cluster text not null,
    at bigint not null,
    score double precision not null,
    place integer not null,
    primary key (cluster, at)
);
create index scout_score_history_age on scout_score_history (at);
create table scout_change (
    at bigint not null,
    kind text not null,
    ref text not null,
    says text not null,
    primary key (at, kind, ref)
);

-- Numbers for pages, counted once a minute at most, and how far something has looked.
create table scout_figure (
    name text primary key,
    value bigint not null,
    at bigint not null
);

create index scout_app_ratings on scout_app (rating_count desc, track_id desc);
create index scout_app_genre on scout_app (primary_genre, rating_count desc, track_id desc);
create index scout_app_newest on scout_app (first_seen_at desc, track_id desc);
create index scout_chart_history_app on scout_chart_history (track_id, snapshot_at);
create index scout_opportunity_decided on scout_opportunity (decided_at);
create index scout_opportunity_first on scout_opportunity (first_at desc, cluster);
