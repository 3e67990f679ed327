-- Schema version 3: what consumers of messages keep beside the ledger. Times are microseconds since 1970.

-- One row per consumer. `generation` is the replay generation of its scope; `generation_last` the highest one ever given
-- out, for a deliberate replay of everything or for one dead letter that is tried again.
create table semel.consumer (
    name            text primary key,
    generation      bigint not null default 0,
    generation_last bigint not null default 0
);

-- One row per running member of a consumer's group. Everything that it settled before `progress` has been acknowledged to
-- the broker for sure: the sweep forgets no operation that was settled later than the least of them. A member that ends in
-- order takes its row away; that of one that crashed stays until others of its group have been at work for an hour since.
create table semel.consumer_member (
    consumer text   not null,
    member   text   not null,
    progress bigint not null,
    beat     bigint not null,
    primary key (consumer, member)
);

-- Messages that failed and wait for their next try (held 0), or until the gap before them is filled (held 1), or that cannot
-- be read any more (held 2). Acknowledged to the broker: this row is all there is of them.
create table semel.shelf (
    number       bigint generated always as identity primary key,
    consumer     text   not null,
    generation   bigint not null,
    ordering_key text   not null,
    aggregate    text   not null,
    sequence     bigint,
    held         bigint not null,
    ready_at     bigint not null,
    tries        bigint not null,
    first_at     bigint not null,
    error        text   not null,
    message      bytea  not null
);
create index shelf_ready on semel.shelf (consumer, held, ready_at);
create index shelf_order on semel.shelf (consumer, ordering_key, number);

-- Messages that nobody will try again unless a person says so. `identity` keeps a redelivery from being buried twice.
create table semel.dead_letter (
    number       bigint generated always as identity primary key,
    consumer     text   not null,
    identity   bytea  not null,
    generation   bigint not null,
    scope        text,
    key          text,
    reason       text   not null,
    error        text   not null,
    tries        bigint not null,
    at           bigint not null,
    message      bytea  not null,
    unique (consumer, identity)
);

-- The order guard: the last sequence that was applied to an aggregate, by the consumer's name and replay generation
-- (`name`, `name#2`).
create table semel.order_mark (
    consumer  text   not null,
    aggregate text   not null,
    last      bigint not null,
    primary key (consumer, aggregate)
);
