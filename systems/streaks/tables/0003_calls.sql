-- A second, louder call at a later hour of a day on which nothing was done; none without an hour.
alter table streaks_person add column second_hour integer check (second_hour between 0 and 23);

-- Weeks in a row, not days.
alter table streaks_person add column weekly integer not null default 0 check (weekly in (0, 1));

-- What the number of a day counts, and whether the streak would have ended with it.
alter table streaks_day add column weekly integer not null default 0 check (weekly in (0, 1));

alter table streaks_day add column at_risk integer not null default 0 check (at_risk in (0, 1));

update streaks_day set at_risk = 1 where contributions = 0;
