-- Schema version 1: the ledger. docs/formats/record.md describes the columns byte by byte.
create schema if not exists semel;

create table semel.meta (
    name  text primary key,
    value bigint not null
);

-- I3: one store-wide counter that only grows. A batch takes a block of 1024 tokens with one call.
create sequence semel.token increment by 1024 start with 1024;

-- state: 1 running, 2 unknown, 3 settled; 0 is a released operation, absent to everyone. Its row stays for an hour, so
-- that a transaction that took its token before the release cannot insert an older token after it.
create table semel.operation (
    op      uuid primary key,
    token   bigint   not null,
    due     bigint,
    state   smallint not null,
    scope   text,
    key     text,
    record  bytea    not null,
    outcome bytea
);
create index operation_due on semel.operation (state, due) where due is not null;
