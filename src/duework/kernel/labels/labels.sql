-- The statements on labels: what jobs carry beside their arguments. The tables come with shapes/labels.

-- name: insert
insert into duework_label (job, headers, latest) values (:job, :headers, :latest)

-- name: insert_tag
insert into duework_tag (job, tag) values (:job, :tag)

-- name: latest
select latest from duework_label where job = :job

-- name: relabel
update duework_label set headers = :headers, latest = :latest where job = :job

-- name: forget_tags
delete from duework_tag where job in (select value from json_each(:ids))

-- name: forget
delete from duework_label where job in (select value from json_each(:ids))

-- name: headers_of
select headers from duework_label where job = :job

-- name: tags_of
select tag from duework_tag where job = :job order by tag

-- name: tagged
select job from duework_tag
where tag = :tag and job < :before
order by job desc
limit :wanted

-- name: next_labels
-- The next labels by job, and whether it is still there.
select l.job, j.id
from (select job from duework_label where job > :after order by job limit :wanted) l
left join duework_job j on j.id = l.job
order by l.job
