-- The invariants of labels.

-- name: of_labels
select count(*) from duework_label

-- name: label_bounds_its_job
-- Of: labels
-- Says: a job that waits to be replaced is due by the latest time that was said
select l.job
from duework_label l
join duework_job j on j.id = l.job
where j.state = 'open' and j.worker is null and j.failures = 0 and j.at > l.latest
limit :bound

-- name: tag_has_a_label
-- Of: labels
-- Says: tags belong to a label, which is looked at when its job is gone
select t.job
from duework_tag t
left join duework_label l on l.job = t.job
where l.job is null
limit :bound
