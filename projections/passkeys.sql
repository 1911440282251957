-- One-time links to register a passkey, and the one-time values of the pages that were handed back.
-- Times are the database's: nothing here follows from the log, or leads to it.

-- name: make_link
insert into actionledger.passkey_links (token_sha256, person, expires_at)
values ($1, $2, now() + $3::bigint * interval '1 millisecond')

-- name: link
select person, key, device, (extract(epoch from expires_at) * 1000)::bigint as expires_at
from actionledger.passkey_links
where token_sha256 = $1 and expires_at > now()

-- name: put_key
update actionledger.passkey_links
set key = $2, device = $3
where token_sha256 = $1 and expires_at > now() and key is null
returning token_sha256

-- name: end_link
delete from actionledger.passkey_links
where token_sha256 = $1 or expires_at < now() - interval '1 day'

-- name: spend
insert into actionledger.console_spent (value_sha256)
values ($1)
on conflict do nothing
returning value_sha256

-- name: is_spent
select exists (select from actionledger.console_spent where value_sha256 = $1)

-- name: forget_spent
delete from actionledger.console_spent
where spent_at < now() - $1::bigint * interval '1 millisecond'
