-- Debates as they grow, what came of them, and what everything costs. Money is in millionths of a dollar.

-- Who has debated: rules, or a model of which at least one turn is.
alter table scout_opportunity add column analyst text not null default 'rules';

create table scout_debate_report (
    -- The job's number.
    id bigint primary key,
    cluster text not null,
    name text not null,
    -- Who was to speak: rules, or the name of a model.
    analyst text not null,
    parts text not null,
    facts text not null,
    -- open, done.
    state text not null default 'open' check (state in ('open', 'done')),
    verdict text,
    score double precision not null,
    started_at bigint not null,
    decided_at bigint
);
create index scout_debate_report_cluster on scout_debate_report (cluster, started_at);
create index scout_debate_report_age on scout_debate_report (decided_at);

create table scout_debate_message (
    debate bigint not null,
    place integer not null,
    who text not null,
    -- Who has spoken in fact, and why not the model.
    analyst text not null,
    why text,
    -- Each with its text, the numbers of its facts, and of the claims that it answers.
    claims text not null,
    at bigint not null,
    primary key (debate, place)
);

-- One row for each voice: what it makes of the cluster.
create table scout_opportunity_evaluation (
    cluster text not null,
    agent text not null,
    score double precision not null,
    verdict text,
    inputs text not null,
    debate bigint not null,
    at bigint not null,
    primary key (cluster, agent)
);

create table scout_opportunity_reference_app (
    cluster text not null,
    track_id bigint not null,
    place integer not null,
    why text not null,
    debate bigint not null,
    primary key (cluster, track_id)
);

create table scout_opportunity_method_score (
    cluster text not null,
    method text not null,
    score double precision not null,
    inputs text not null,
    debate bigint not null,
    primary key (cluster, method)
);

create table scout_market_tip (
    cluster text not null,
    place integer not null,
    text text not null,
    facts text not null,
    debate bigint not null,
    primary key (cluster, place)
);

-- A call of a model: reserved before it is made, and what it cost as soon as that is known.
create table scout_cost (
    debate bigint not null,
    number integer not null,
    step text not null,
    -- Of what was asked: an answer that was paid for is not asked for again.
    digest text not null,
    model text not null,
    -- reserved, settled, refused (nothing was spent), unsure (no reply: all that was reserved counts).
    state text not null check (state in ('reserved', 'settled', 'refused', 'unsure')),
    reserved bigint not null,
    cost bigint not null,
    tokens_in bigint not null default 0,
    tokens_cached bigint not null default 0,
    tokens_out bigint not null default 0,
    why text,
    -- Until the debate is decided.
    answer text,
    at bigint not null,
    ended_at bigint,
    primary key (debate, number)
);
create index scout_cost_age on scout_cost (at, debate, number);

-- What was used in a day, added up in the commit that uses it, or before the call that does.
create table scout_cost_day (
    day text not null,
    -- llm, http, rows.
    service text not null,
    what text not null,
    calls bigint not null default 0,
    units_in bigint not null default 0,
    units_out bigint not null default 0,
    cost bigint not null default 0,
    primary key (day, service, what)
);

-- The ceiling's counter: one row for a month.
create table scout_cycle_month (
    month text primary key,
    cycles bigint not null default 0,
    skipped bigint not null default 0
);

-- Figures that somebody has asked for, and when they were counted.
create table scout_health_snapshot (
    name text primary key,
    value double precision not null,
    at bigint not null
);
