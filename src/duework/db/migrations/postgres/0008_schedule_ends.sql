-- A schedule may end at a time, or after a number of fires.

alter table duework_schedule add column ends bigint;
alter table duework_schedule add column count bigint;
alter table duework_schedule add column counted bigint not null default 0;
