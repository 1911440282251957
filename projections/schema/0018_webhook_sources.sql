-- How a webhook came: sent by the provider, a line of its settlement file, an effect of its own
-- list, or an event fetched from its list of events.

-- migrate:up

alter table actionledger.webhooks
    add column source text not null default 'webhook'
    constraint webhooks_source check (source in ('webhook', 'settlement', 'listing', 'pulled'));

-- migrate:down

alter table actionledger.webhooks drop column source;
