-- Crawling: where an app was found, keywords that come due again, developers, seeds, and what a cycle did.

-- chart, search, portfolio, similar; null: before anybody noted it.
alter table scout_app add column found_by text;
-- Set while a keyword finds the app; null: no keyword does.
alter table scout_app add column ranked_at bigint;
-- When keywords of its own are next made for an app that no keyword finds.
alter table scout_app add column fill_at bigint not null default 0;
update scout_app set ranked_at =
    (select max(r.crawled_at) from scout_ranking r where r.track_id = scout_app.track_id);
create index scout_app_unranked on scout_app (fill_at)
    where ranked_at is null and enriched_at is not null and enrichment_source <> 'failed';
create index scout_app_new on scout_app (first_seen_at);

-- When a keyword that was searched for is due again, or one that failed may be tried again.
alter table scout_keyword add column due_at bigint;
-- How long what was found for it is good for; somebody who follows a keyword sets it to one.
alter table scout_keyword add column refresh_days integer not null default 30;
-- Of a search, how many apps nobody had known.
alter table scout_keyword add column new_apps integer not null default 0;
update scout_keyword set due_at = last_searched_at + 2592000000 where status = 'searched';
-- A status of its own, so that what waits is never in front of what is pending.
update scout_keyword set status = 'failing', due_at = retry_at where status = 'pending' and failures > 0;
create index scout_keyword_due on scout_keyword (status, due_at);

-- When a developer's other apps are next asked for; 0 is never asked yet.
alter table scout_developer add column due_at bigint not null default 0;
alter table scout_developer add column expanded_at bigint;
-- Set while a job has it.
alter table scout_developer add column expanding bigint;
alter table scout_developer add column apps_found integer;
alter table scout_developer add column failures integer not null default 0;
create index scout_developer_due on scout_developer (due_at) where expanding is null;

-- Keywords to begin with, by whoever gave them.
create table scout_seed (
    keyword text primary key,
    source text not null,
    priority integer not null,
    created_at bigint not null
);

-- A cycle and what came of everything that it started.
create table scout_crawl_log (
    -- Its job.
    id bigint primary key,
    phase text not null,
    started_at bigint not null,
    closed_at bigint,
    categories_scanned integer not null default 0,
    apps_discovered integer not null default 0,
    apps_ranked integer not null default 0,
    keywords_searched integer not null default 0,
    rankings_added integer not null default 0,
    developers_expanded integer not null default 0,
    keywords_with_new_rankings integer not null default 0,
    -- Whether apps waited to be enriched: what is started leaves room for them.
    enrichment integer not null default 0
);
create index scout_crawl_log_age on scout_crawl_log (started_at);

-- Keywords whose rankings have changed and of which nobody has been told yet.
create table scout_fresh_keyword (keyword text primary key, at bigint not null);

-- Under the names that people may look for.
create view scout_app_registry as select * from scout_app;
create view scout_crawl_keywords as select * from scout_keyword;
create view scout_crawl_rankings as select * from scout_ranking;
create view scout_crawl_seeds as select * from scout_seed;
create view scout_category_scans as select * from scout_category;
create view scout_chart_positions as select * from scout_chart;
create view scout_chart_position_history as select * from scout_chart_history;
