-- The invariants of objects. Each statement returns the ids of rows that break one, at most :bound of
-- them, and changes nothing. `of_…` counts what there was to look at.

-- name: of_objects
select count(*) from duework_object

-- name: of_object_pages
select count(*) from duework_object_page

-- name: of_alarms
select count(*) from duework_object where alarm is not null

-- name: pages_are_whole
-- Of: objects
-- Says: an object has all of its pages
-- Numbered from 1 to what the object says; a stored page is never larger than 4 KB and its gap.
select o.id
from duework_object o
left join duework_object_page p on p.object = o.id
group by o.id, o.pages
having count(p.number) <> o.pages or coalesce(max(p.number), 0) <> o.pages
    or coalesce(min(p.number), 1) <> 1 or coalesce(max(length(p.bytes)), 0) > 4100
limit :bound

-- name: page_has_object
-- Of: object_pages
-- Says: a page belongs to an object
select p.object
from duework_object_page p
left join duework_object o on o.id = p.object
where o.id is null
limit :bound

-- name: alarm_is_a_job
-- Of: alarms
-- Says: the alarm of an object is an open or failed job of its kind
-- Of the object's own kind, open or failed: one that is done has been taken off.
select o.id
from duework_object o
left join duework_job j on j.id = o.alarm
where o.alarm is not null
  and (j.id is null or j.task <> o.kind || '.alarm' or j.state not in ('open', 'failed'))
limit :bound

-- name: alarm_has_object
-- Of: alarms
-- Says: an alarm that waits is the alarm of an object
-- One that was claimed before may have been replaced meanwhile, and will find that out.
select j.id
from duework_job j
left join duework_object o on o.alarm = j.id
where j.owner like 'object:%' and j.state = 'open' and j.worker is null and j.fence = 0
  and o.id is null
limit :bound
