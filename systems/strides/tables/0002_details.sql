-- What only a call of its own tells of a race.
alter table strides_race add column description text;
alter table strides_race add column calories double precision;
