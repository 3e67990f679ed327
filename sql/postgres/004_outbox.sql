-- Schema version 4: the outbox: events that commit with the business write, until `semel outbox` has published them.
--
--     begin;
--     -- the business write; then
--     select semel.stage_json(topic => 'orders', source => '/shop', type => 'order.paid', ordering_key => 'order-7',
--                             data => '{"order": 7}');
--     commit;
--
-- Times are microseconds since 1970. docs/outbox.md

-- An event that is staged and not published yet. A published one is deleted: what is here is the work that is left. Of one
-- ordering key `sequence` is the order of commits, since the key is locked before its sequence is taken. extensions:
-- `name=value`, a line each, in the order of names.
create sequence semel.outbox_sequence;
create table semel.outbox (
    outbox            text     not null,
    shard             smallint not null,
    sequence          bigint   not null,
    staged_at         bigint   not null,
    topic             text     not null,
    ordering_key      text     not null,
    id                text     not null,
    source            text     not null,
    type              text     not null,
    subject           text     not null,
    time              text     not null,
    data_content_type text     not null,
    data_schema       text     not null,
    extensions        text     not null,
    data              bytea    not null,
    primary key (outbox, shard, sequence)
);
-- Rows live for a moment: what is dead is cleared away early, by number and not by share of a table that is mostly empty.
alter table semel.outbox set (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0,
                              autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000);

-- Which relay works on which shard, and until when. bell: it sleeps and wants to be told of what is staged.
create table semel.outbox_lease (
    outbox text     not null,
    shard  smallint not null,
    relay  text     not null default '',
    until  bigint   not null default 0,
    bell   boolean  not null default true,
    primary key (outbox, shard)
) with (fillfactor = 50);
create table semel.outbox_relay (
    outbox      text   not null,
    relay       text   not null,
    alive_until bigint not null,
    primary key (outbox, relay)
) with (fillfactor = 50);

-- An event that its broker refuses. It stops its ordering key until `retry_at`; one without a key stops itself.
create table semel.outbox_stuck (
    outbox       text     not null,
    shard        smallint not null,
    sequence     bigint   not null,
    ordering_key text     not null,
    tries        bigint   not null,
    since        bigint   not null,
    retry_at     bigint   not null,
    error        text     not null,
    primary key (outbox, shard, sequence)
);

create function semel._micros() returns bigint
language sql volatile
return (extract(epoch from clock_timestamp()) * 1000000)::bigint;

create function semel._staged_text(name text, value text, bytes_min int, bytes_max int) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if value is null or octet_length(value) not between bytes_min and bytes_max or value ~ '[[:cntrl:]]' then
        raise exception 'stage: % has to have % to % bytes without control characters', name, bytes_min, bytes_max
            using errcode = 'invalid_parameter_value';
    end if;
    return value;
end $$;

create function semel._stage(outbox text, topic text, ordering_key text, id text, source text, type text, subject text,
                             "time" text, data_content_type text, data_schema text, extensions text, data bytea)
returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    number bigint;
    at     smallint;
begin
    if _stage.ordering_key <> '' then
        -- Before the sequence is taken, and held until the commit is visible: of one key sequence is commit order.
        -- 7306357 is ours, so that a transaction that holds others up can be found in pg_locks.
        perform pg_advisory_xact_lock(7306357, hashtext(_stage.outbox || '/' || _stage.ordering_key));
        number := nextval('semel.outbox_sequence');
        at := hashtext(_stage.ordering_key) & 15;
    else
        number := nextval('semel.outbox_sequence');
        at := number & 15;
    end if;
    insert into semel.outbox values (_stage.outbox, at, number, semel._micros(), _stage.topic, _stage.ordering_key, _stage.id,
        _stage.source, _stage.type, _stage.subject, _stage."time", _stage.data_content_type, _stage.data_schema,
        _stage.extensions, _stage.data);
    -- NOTIFY takes a lock of the whole server at commit: only where somebody sleeps.
    if (select l.bell from semel.outbox_lease l where l.outbox = _stage.outbox and l.shard = at) then
        perform pg_notify('semel_outbox', '');
    end if;
    return number;
end $$;

-- Stages an event in the caller's transaction: it is published if and only if that commits. Events with the same ordering
-- key are published in the order of their commits, those of one transaction in the order of their calls; a second
-- transaction waits here until the first one that staged for that key has ended. `topic` is Kafka's topic, RabbitMQ's
-- routing key, NATS' subject, Redis' stream or the path of an HTTP endpoint. Returns the event's number.
create function semel.stage(topic text, source text, type text, data bytea, ordering_key text default '',
                            id text default gen_random_uuid()::text, subject text default '',
                            data_content_type text default 'application/octet-stream', data_schema text default '',
                            "time" timestamptz default clock_timestamp(), extensions jsonb default '{}',
                            outbox text default 'main') returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    lines text;
begin
    if exists (select from jsonb_each_text(stage.extensions) e where e.key !~ '^[a-z0-9]{1,64}$'
                  or e.key in ('specversion', 'id', 'source', 'type', 'subject', 'time', 'datacontenttype', 'dataschema',
                               'data')) then
        raise exception 'stage: names in extensions have 1 to 64 characters of a-z and 0-9, and are not those of attributes'
            using errcode = 'invalid_parameter_value';
    end if;
    select string_agg(e.key || '=' || semel._staged_text('an extension', e.value, 0, 4096), E'\n' order by e.key collate "C")
      into lines from jsonb_each_text(stage.extensions) e;
    return semel._stage(semel._staged_text('outbox', stage.outbox, 1, 255),
        semel._staged_text('topic', stage.topic, 1, 1024),
        semel._staged_text('ordering_key', stage.ordering_key, 0, 1024), semel._staged_text('id', stage.id, 1, 1024),
        semel._staged_text('source', stage.source, 1, 4096), semel._staged_text('type', stage.type, 1, 4096),
        semel._staged_text('subject', stage.subject, 0, 4096),
        coalesce(to_char(stage."time" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), ''),
        semel._staged_text('data_content_type', stage.data_content_type, 0, 4096),
        semel._staged_text('data_schema', stage.data_schema, 0, 4096), coalesce(lines, ''), stage.data);
end $$;

-- The same of JSON.
create function semel.stage_json(topic text, source text, type text, data json, ordering_key text default '',
                                 id text default gen_random_uuid()::text, subject text default '',
                                 data_schema text default '', "time" timestamptz default clock_timestamp(),
                                 extensions jsonb default '{}', outbox text default 'main') returns bigint
language sql volatile
return semel.stage(topic, source, type, pg_catalog.convert_to(data::pg_catalog.text, 'UTF8'), ordering_key, id, subject,
                   'application/json', data_schema, "time", extensions, outbox);

-- For `semel outbox`: says that `me` lives, keeps its share of the shards and lets the rest go, takes what is free.
create function semel._outbox_hold(of_outbox text, me text, lease bigint, out held smallint[], out relays bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    now_at bigint := semel._micros();
    share  bigint;
    mine   bigint;
begin
    insert into semel.outbox_relay values (of_outbox, me, now_at + lease)
        on conflict (outbox, relay) do update set alive_until = excluded.alive_until;
    delete from semel.outbox_relay r where r.outbox = of_outbox and r.alive_until < now_at - 3600000000;
    insert into semel.outbox_lease (outbox, shard) select of_outbox, n from generate_series(0, 15) n on conflict do nothing;
    select count(*) into relays from semel.outbox_relay r where r.outbox = of_outbox and r.alive_until > now_at;
    share := (15 + relays) / relays;
    update semel.outbox_lease l
       set relay = case when m.place <= share then me else '' end, until = case when m.place <= share then now_at + lease else 0 end
      from (select k.shard, row_number() over (order by k.shard) as place from semel.outbox_lease k
             where k.outbox = of_outbox and k.relay = me) m
     where l.outbox = of_outbox and l.shard = m.shard and l.relay = me;
    select count(*) into mine from semel.outbox_lease l where l.outbox = of_outbox and l.relay = me;
    update semel.outbox_lease l set relay = me, until = now_at + lease, bell = true
      from (select k.shard from semel.outbox_lease k where k.outbox = of_outbox and (k.relay = '' or k.until < now_at)
             order by k.shard limit greatest(0, share - mine) for update skip locked) f
     where l.outbox = of_outbox and l.shard = f.shard;
    select coalesce(array_agg(l.shard order by l.shard), '{}') into held
      from semel.outbox_lease l where l.outbox = of_outbox and l.relay = me;
end $$;
