-- Whose account of GitHub a row belongs to, and whether everybody may see its streak.

alter table streaks_person add column github_id bigint;

-- What the person is signed in as.
alter table streaks_person add column account text;

alter table streaks_person add column shown integer not null default 0 check (shown in (0, 1));

create unique index streaks_person_github on streaks_person (github_id);

create unique index streaks_person_account on streaks_person (account);

-- Weekdays that neither break a streak nor are told: 'sat,sun'.
alter table streaks_person add column days_off text not null default '';

-- The same for days of the calendar: holidays, or one day that is frozen. First and last are dates.
create table streaks_away (
    person text not null,
    first text not null,
    last text not null,
    primary key (person, first)
);
