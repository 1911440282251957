-- name: text_orders
-- How texts were sorted when the indexes of this database were made, and how they are sorted now:
-- names of versions, which nobody has to understand. Of some orders neither is known.
select
    datcollversion as made,
    pg_database_collation_actual_version(oid) as now
from pg_database
where datname = current_database()
