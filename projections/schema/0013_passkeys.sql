-- What the pages keep for themselves. Nothing here follows from the log, and nothing decides: who
-- may decide stands in the document of people, which only an operator publishes.

-- migrate:up

-- One-time links to register a passkey. The operator's command makes and ends them; the gateway
-- puts in the public key that a browser made, once. Tokens are kept by their hash.
create table actionledger.passkey_links (
    token_sha256 text        not null primary key,
    person       text        not null,
    made_at      timestamptz not null default now(),
    expires_at   timestamptz not null,
    key          json,
    device       text,
    constraint passkey_links_key check ((key is null) = (device is null))
);

-- One-time values that were handed back: challenges of log-ins and of decisions. A row an answer,
-- for as long as the value would have been good.
create table actionledger.console_spent (
    value_sha256 text        not null primary key,
    spent_at     timestamptz not null default now()
);

create index console_spent_at on actionledger.console_spent (spent_at);

-- migrate:down

drop table actionledger.console_spent;
drop table actionledger.passkey_links;
