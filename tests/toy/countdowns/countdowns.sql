-- The statements of countdowns. A row is moved by one job at a time, which it names.

-- name: insert
-- Nothing is returned if there is one of that name.
insert into duework_countdown (id, name, state, remaining, job, due)
values (:id, :name, 'running', :remaining, :job, :due)
on conflict (name) do nothing
returning id

-- name: tick
-- By the job that the row names, and by no other: an attempt that comes late changes nothing.
update duework_countdown
set remaining = remaining - 1
where id = :id and job = :job and state = 'running'
returning name, remaining

-- name: go_on
update duework_countdown set job = :job where id = :id

-- name: ended
update duework_countdown
set state = :state, job = null, due = :due
where id = :id and state = 'running'

-- name: listed
select name, state, remaining from duework_countdown order by name limit :wanted

-- name: over
delete from duework_countdown
where id in (select id from duework_countdown where due <= :now order by due limit :wanted)
returning id
