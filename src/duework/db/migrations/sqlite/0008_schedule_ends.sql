-- A schedule may end at a time, or after a number of fires.

alter table duework_schedule add column ends integer;
alter table duework_schedule add column count integer;
alter table duework_schedule add column counted integer not null default 0;
