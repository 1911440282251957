-- Live windows as rows. Each statement stands behind its name; `reconciler.windows` is the only
-- reader of this file.

-- name: write_windows
insert into actionledger.live_windows (member, written_at, windows)
values ($1, $2, $3)
on conflict (member) do update
set written_at = excluded.written_at, windows = excluded.windows;

-- name: forget_windows
-- Members that have ended; one that only was away writes its row again.
delete from actionledger.live_windows where written_at < $1;

-- name: read_windows
select windows from actionledger.live_windows where written_at > $1 order by member;
