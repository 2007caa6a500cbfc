-- Whose account of GitHub a row belongs to, and whether everybody may see its streak.

alter table streaks_person add column github_id bigint;

-- What the person is signed in as.
alter table streaks_person add column account text;

alter table streaks_person add column shown integer not null default 0 check (shown in (0, 1));

create unique index streaks_person_github on streaks_person (github_id);

create unique index streaks_person_account on streaks_person (account);
