-- What the doctor reads besides what a checkup does; every statement looks at a bounded number of rows.

-- name: schedules
-- Those that repeat, among the first by key.
select s.key, s.kind, s.rule, s.owner, s.why, s.idle, s.decorated
from (select key, kind, rule, owner, why, idle, decorated, state from duework_schedule
      order by key limit :looked) s
where s.state = 'active' and s.kind in ('cron', 'every', 'rrule')
order by s.key

-- name: oldest_kept
-- The settled row whose retention ends, or ended, first.
select due from duework_job where state <> 'open' order by due limit 1

-- name: newest_job
select max(id) from duework_job

-- name: said
select value from duework_meta where name = :name

-- name: say
insert into duework_meta (name, value) values (:name, :value)
on conflict (name) do update set value = excluded.value
