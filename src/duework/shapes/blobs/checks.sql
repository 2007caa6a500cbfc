-- The invariants of blobs.

-- name: of_blobs
select count(*) from duework_blob

-- name: blob_content_stays
-- Of: blobs
-- Says: the content of a blob is not among those that will be deleted
select b.content
from duework_blob b
join duework_blob_trash t on t.content = b.content
limit :bound

-- name: blob_is_whole
-- Of: blobs
-- Says: a blob has a size, a digest, and an end after its beginning
select content
from duework_blob
where size < 0 or length(digest) <> 64 or due <= created
limit :bound
