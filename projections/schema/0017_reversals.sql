-- What a provider gave back names the effect that it gave back: a parked webhook is matched by that
-- name. The name of the giving back itself is nobody's.

-- migrate:up

alter table actionledger.webhooks add column reverses text;

-- migrate:down

alter table actionledger.webhooks drop column reverses;
