-- Schema version 2: the ledger inside a caller's own transaction, for services in any language.
--
--     begin;
--     select * from semel.claim('acme/payments', 'k1', semel.fingerprint('100 EUR for order 7'));
--     -- answer = claimed: the business writes; then
--     select semel.settle_or_fail('acme/payments', 'k1', <token>, 200, <what to answer>);
--     commit;
--
-- Claim writes the row first, settled and without its outcome ("unfilled"); settle fills it. So row and effect share the
-- fate of the transaction, and one that commits without settle still never runs twice. docs/in-your-transaction.md
--
-- These functions do what src/ledger/rules.cpp does for a claim inside a transaction, and tests/transaction compares them
-- with it. All of them run with the rights of the caller. A name that begins with _ is for the others here.

-- ---- bytes: docs/formats/record.md ------------------------------------------------------------------------------

create function semel._byte(value int) returns bytea
language sql immutable strict parallel safe
return substr(int4send(value), 4);

-- LEB128 of the 64 bits, read without a sign.
create function semel._varint(value bigint) returns bytea
language plpgsql immutable strict parallel safe as $$
declare
    bytes bytea := decode('', 'hex');
    rest  bigint := value;
begin
    while (rest & (-128)::bigint) <> 0 loop
        bytes := bytes || semel._byte(((rest & 127) | 128)::int);
        rest := (rest >> 7) & 144115188075855871;
    end loop;
    return bytes || semel._byte(rest::int);
end $$;

-- The LEB128 number of `bytes` at `place`, counted from 0.
create function semel._varint_at(bytes bytea, place int) returns bigint
language plpgsql immutable strict parallel safe as $$
declare
    value bigint := 0;
    shift int := 0;
    byte  int;
begin
    loop
        byte := get_byte(bytes, place + shift / 7);
        value := value | ((byte & 127)::bigint << shift);
        if byte < 128 or shift = 63 then return value; end if;
        shift := shift + 7;
    end loop;
end $$;

-- A signed number as the value of a field, and back.
create function semel._number(value bigint) returns bytea
language sql immutable strict parallel safe
return semel._varint((value << 1) # (value >> 63));

create function semel._number(value bytea) returns bigint
language plpgsql immutable strict parallel safe as $$
declare
    bits bigint := semel._varint_at(value, 0);
begin
    return ((bits >> 1) & 9223372036854775807) # -(bits & 1);
end $$;

create function semel._event(what int, at bigint, token bigint) returns bytea
language sql immutable strict parallel safe
return semel._byte(what) || semel._number(at) || semel._varint(token);

-- The record column, read: flags, fingerprint with its version, and the values of the fields by their tags.
-- fields: 1 key time, 2 correlation, 3 attempt, 5 lease until, 10 retention, 11 response retention, 12 created,
-- 14 unknown since, 18 status, 19 settled at; 17 and 20 are repeated, so they are `events` and `checkpoints`.
create type semel._record as (flags int, fingerprint bytea, fields bytea[], events bytea[], checkpoints bytea[]);

-- Reads the record column of a row that is known to be intact.
create function semel._read(record bytea) returns semel._record
language plpgsql immutable strict parallel safe as $$
declare
    read  semel._record;
    last  int := octet_length(record) - 8;
    place int := 19;
    tag   int;
    size  bigint;
    value bytea;
begin
    read.flags := get_byte(record, 1);
    read.fingerprint := substr(record, 3, 17);
    read.fields := array_fill(null::bytea, array[20]);
    read.events := '{}';
    read.checkpoints := '{}';
    while place < last loop
        tag := get_byte(record, place);
        size := semel._varint_at(record, place + 1);
        place := place + 1 + octet_length(semel._varint(size));
        if tag not between 1 and 20 or place + size > last then
            raise exception 'a record has a field that this schema does not know (see docs/formats/record.md)'
                using errcode = 'data_corrupted';
        end if;
        value := substr(record, place + 1, size::int);
        place := place + size::int;
        if tag = 17 then
            read.events := read.events || value;
        elsif tag = 20 then
            read.checkpoints := read.checkpoints || value;
        else
            read.fields[tag] := value;
        end if;
    end loop;
    return read;
end $$;

create function semel._checksum(id uuid, state int, token bigint, due bigint, head bytea, outcome bytea) returns bytea
language sql immutable parallel safe
return substr(sha256(uuid_send(id) || semel._byte(state) || int8send(token) || int8send(coalesce(due, -1)) || head
                     || coalesce(outcome, decode('', 'hex'))), 1, 8);

-- The row with `read` as its record column: due and checksum included.
create function semel._written(held semel.operation, read semel._record) returns semel.operation
language plpgsql immutable parallel safe as $$
declare
    head       bytea := semel._byte(1) || semel._byte(read.flags) || read.fingerprint;
    settled_at bigint := semel._number(read.fields[19]);
    values_of  bytea[];
    value      bytea;
begin
    for tag in 1..20 loop
        values_of := case tag when 17 then read.events when 20 then read.checkpoints else read.fields[tag:tag] end;
        foreach value in array values_of loop
            continue when value is null;
            head := head || semel._byte(tag) || semel._varint(octet_length(value)) || value;
        end loop;
    end loop;
    -- When a store has to look at it again without being asked.
    held.due := case held.state
        when 1 then semel._number(read.fields[5])
        when 2 then 9223372036854775807
        else least(greatest(settled_at, semel._number(read.fields[1])) + semel._number(read.fields[10]),
                   settled_at + case when read.fields[11] is null then 86400000000
                                     when octet_length(read.fields[11]) > 0 then semel._number(read.fields[11]) end)
        end;
    held.record := head || semel._checksum(held.op, held.state, held.token, held.due, head, held.outcome);
    return held;
end $$;

-- One more event. The history keeps its first and the last seven.
create function semel._remembered(events bytea[], event bytea) returns bytea[]
language sql immutable parallel safe
return case when cardinality(events) = 8 then events[1:1] || events[3:8] else events end || event;

-- What makes a row one that cannot be trusted; null if there is nothing.
create function semel._damage(held semel.operation) returns text
language plpgsql immutable parallel safe as $$
declare
    head bytea;
begin
    if octet_length(held.record) < 27 then return 'its record is cut short'; end if;
    head := substr(held.record, 1, octet_length(held.record) - 8);
    if substr(held.record, octet_length(head) + 1)
       <> semel._checksum(held.op, held.state, held.token, held.due, head, held.outcome) then
        return 'its checksum does not match';
    end if;
    if held.state not in (1, 2, 3) then return 'its state is none of running, unknown, settled'; end if;
    if get_byte(head, 0) <> 1 then return 'its format is newer than this schema'; end if;
    if (held.outcome is not null) <> (held.state = 3 and get_byte(head, 1) & 8 <> 0) then
        return 'its outcome is missing or should not be there';
    end if;
    if (held.scope is null) <> (held.key is null) then
        return 'it has a scope without a key, or a key without a scope';
    end if;
    return null;
end $$;

-- Raises unless the row can be trusted and, if it says whose it is, belongs to this operation.
create function semel._check(held semel.operation, written text, key text) returns void
language plpgsql immutable as $$
declare
    damage text := semel._damage(held);
begin
    if damage is null and (held.scope <> written or held.key <> key) then
        damage := 'its scope and key belong to another operation';
    end if;
    if damage is not null then
        raise exception 'operation %: %; the row is neither replayed nor run again (see docs/formats/record.md)',
            replace(held.op::text, '-', ''), damage using errcode = 'data_corrupted';
    end if;
end $$;

-- ---- time -------------------------------------------------------------------------------------------------------

-- Microseconds since 1970 by the server's clock. Not now(): a transaction may have waited.
create function semel._clock() returns bigint
language sql volatile parallel safe
return (extract(epoch from clock_timestamp()) * 1000000)::bigint;

create function semel._time(micros bigint) returns timestamptz
language sql immutable strict parallel safe
return timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond';

create function semel._micros(span interval) returns bigint
language sql immutable strict parallel safe
return (extract(epoch from span) * 1000000)::bigint;

create function semel._span(micros bigint) returns interval
language sql immutable strict parallel safe
return micros * interval '1 microsecond';

-- ---- names: docs/formats/keys.md --------------------------------------------------------------------------------

-- Refused input as one line of printable ASCII, as the C++ library shows it.
create function semel._quoted(input text) returns text
language sql immutable strict parallel safe
begin atomic
    with given as (select convert_to(input, 'UTF8') as bytes),
         shown as (
             select i, get_byte(bytes, i) as byte from given, generate_series(0, least(octet_length(bytes), 64) - 1) as i
         )
    select '"'
           || coalesce(string_agg(case when byte in (34, 92) then chr(92) || chr(byte)
                                       when byte between 32 and 126 then chr(byte)
                                       else chr(92) || 'x' || lpad(to_hex(byte), 2, '0') end, '' order by i), '')
           || '"'
           || coalesce((select format('... (%s bytes)', octet_length(bytes)) from given where octet_length(bytes) > 64), '')
      from shown;
end;

create function semel._refuse(what text, input text, why text) returns void
language plpgsql immutable as $$
begin
    raise exception '% %: %', what, coalesce(semel._quoted(input), 'null'), why using errcode = 'invalid_parameter_value';
end $$;

create function semel._prefixed(bytes bytea) returns bytea
language sql immutable strict parallel safe
return int4send(octet_length(bytes)) || bytes;

-- Reads `tenant/name#generation` and the key. `written` is the scope as the ledger writes it.
create function semel._operation(scope text, key text, out id uuid, out written text)
language plpgsql immutable parallel safe as $$
declare
    hash       int := strpos(scope, '#');
    path       text := case when hash > 0 then left(scope, hash - 1) else scope end;
    slash      int := strpos(path, '/');
    tenant     text := case when slash > 0 then left(path, slash - 1) else '' end;
    name       text := substr(path, slash + 1);
    generation bigint := 0;
begin
    if scope is null then perform semel._refuse('scope', scope, 'must be given'); end if;
    if hash > 0 then
        if substr(scope, hash + 1) ~ '^(0|[1-9][0-9]{0,9})$' then
            generation := substr(scope, hash + 1);
        else
            generation := 4294967296;
        end if;
        if generation > 4294967295 then
            perform semel._refuse('scope', scope,
                                  'after ''#'' must come a generation from 0 to 4294967295, as in acme/orders#2');
        end if;
    end if;
    if octet_length(tenant) > 255 or tenant ~ '[^!-~]' then
        perform semel._refuse('tenant', tenant,
                              'must be at most 255 printable ASCII characters without space, ''/'' and ''#''');
    end if;
    if octet_length(name) not between 1 and 255 or name ~ '[^ -~]' then
        perform semel._refuse('scope name', name, 'must be 1 to 255 printable ASCII characters without ''#''');
    end if;
    if key is null or octet_length(key) not between 1 and 255 or key ~ '[^ -~]' then
        perform semel._refuse('key', key, 'must be 1 to 255 printable ASCII characters (0x20 to 0x7E)');
    end if;
    -- A name with a '/' and no tenant needs the leading one, or its first part would be read as the tenant.
    written := tenant || case when tenant <> '' or strpos(name, '/') > 0 then '/' else '' end || name
               || case when generation > 0 then '#' || generation else '' end;
    id := encode(substr(sha256(semel._prefixed(convert_to('semel/operation/1', 'UTF8'))
                               || semel._prefixed(convert_to(tenant, 'UTF8'))
                               || semel._prefixed(convert_to(name, 'UTF8'))
                               || substr(int8send(generation), 5)
                               || semel._prefixed(convert_to(key, 'UTF8'))), 1, 16), 'hex')::uuid;
end $$;

-- Under which id the ledger keeps (scope, key).
create function semel.operation_id(scope text, key text) returns uuid
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return (semel._operation(scope, key)).id;
end $$;

-- The time inside a UUIDv7 key; null if it is none.
create function semel._key_time(key text) returns bigint
language sql immutable strict parallel safe
return case when key ~* '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
            then ('x0000' || left(key, 8) || substr(key, 10, 4))::bit(64)::bigint * 1000 end;

-- ---- fingerprints: docs/formats/fingerprint.md ------------------------------------------------------------------

-- What the request said, in 16 bytes: the same for every retry, another for another request under the same key.
create function semel.fingerprint(request bytea) returns bytea
language sql immutable strict parallel safe
return substr(sha256(semel._prefixed(convert_to('semel/fingerprint/bytes/1', 'UTF8')) || semel._prefixed(request)), 1, 16);

create function semel.fingerprint(request text) returns bytea
language sql immutable strict parallel safe
return semel.fingerprint(convert_to(request, 'UTF8'));

-- Of the text that PostgreSQL writes for it: order of members and white space do not matter, 1 and 1.0 differ.
create function semel.fingerprint(request jsonb) returns bytea
language sql immutable strict parallel safe
return semel.fingerprint(request::text);

-- ---- claim ------------------------------------------------------------------------------------------------------

-- The top-level transaction, also inside of a savepoint, in 8 bytes.
create function semel._this_transaction() returns bytea
language sql stable
return int8send(pg_current_xact_id()::text::bigint);

-- The row of an operation that is claimed inside this transaction.
create function semel._unfilled(id uuid, written text, key text, token bigint, fingerprint bytea, retention bigint,
                                response_retention bigint, correlation text, key_time bigint, now_at bigint)
returns semel.operation
language plpgsql volatile as $$
declare
    made semel.operation := row (id, token, null, 3, written, key, null, null);
    read semel._record;
begin
    read.flags := 4;
    read.fingerprint := fingerprint;
    read.fields := array_fill(null::bytea, array[20]);
    read.fields[1] := semel._number(key_time);
    read.fields[2] := nullif(convert_to(correlation, 'UTF8'), decode('', 'hex'));
    -- Only this transaction may fill it: the attempt is its id, then eight random bytes.
    read.fields[3] := semel._this_transaction() || substr(uuid_send(gen_random_uuid()), 9);
    read.fields[10] := semel._number(retention);
    read.fields[11] := case when response_retention is null then decode('', 'hex')
                            else nullif(semel._number(response_retention), semel._number(86400000000)) end;
    read.fields[12] := semel._number(now_at);
    read.fields[19] := semel._number(now_at);
    read.events := array[semel._event(1, now_at, token), semel._event(6, now_at, token)];
    read.checkpoints := '{}';
    return semel._written(made, read);
end $$;

create function semel._check_span(what text, span bigint, least_span bigint) returns void
language plpgsql immutable as $$
begin
    if span not between least_span and 3162240000000000 then
        raise exception '% is % ms; it must be between % ms and 3162240000000 ms', what, span / 1000, least_span / 1000
            using errcode = 'invalid_parameter_value';
    end if;
end $$;

-- Claim with all times in microseconds. A null `retention` or `response_retention` is for ever. `key_time` is that of the
-- key where none is given and the retention is finite.
create function semel._claim(scope text, key text, fingerprint bytea, retention bigint, response_retention bigint,
                             correlation text, key_time bigint,
                             out answer text, out token bigint, out status int, out outcome bytea,
                             out outcome_kept boolean, out settled_at bigint, out since bigint, out retry_after bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    named  record := semel._operation(scope, key);
    print  bytea := case when octet_length(fingerprint) = 16 then semel._byte(1) || fingerprint else fingerprint end;
    born   bigint := coalesce(key_time, case when retention is not null then semel._key_time(key) end);
    held   semel.operation;
    locked semel.operation;
    read   semel._record;
    now_at bigint;
begin
    if print is null or octet_length(print) <> 17 then
        raise exception 'fingerprint: it has % bytes, it must have 16; semel.fingerprint() makes them',
            coalesce(octet_length(fingerprint), 0) using errcode = 'invalid_parameter_value';
    end if;
    perform semel._check_span('retention', retention, 1000000);
    perform semel._check_span('response_retention', response_retention, 0);
    if correlation is null or octet_length(correlation) > 255 or correlation ~ '[^ -~]' then
        perform semel._refuse('correlation', correlation, 'must be at most 255 printable ASCII characters');
    end if;

    loop
        select * into held from semel.operation o where o.op = named.id;
        if held.state = 0 and octet_length(held.record) = 0 then
            -- Released: absent, and whoever takes it next has to wait for us, or we for them.
            select * into held from semel.operation o where o.op = named.id for update;
            continue when held.state is distinct from 0;
        end if;
        now_at := semel._clock();

        if held.op is null or held.state = 0 and octet_length(held.record) = 0 then
            -- Absent, and its record may already have been swept: it lived until max(settled, key time) + retention.
            if born + retention <= now_at then
                answer := 'expired';
                return;
            end if;
            if born > now_at + 300000000 then
                perform semel._refuse('key', key, 'its time is more than 5 minutes ahead of the server''s clock');
            end if;
            token := nextval('semel.token');
            locked := semel._unfilled(named.id, named.written, key, token, print, retention, response_retention,
                                      correlation, born, now_at);
            if held.op is null then
                -- Waits for a concurrent duplicate to end. At stricter levels than READ COMMITTED its row would not be
                -- seen afterwards, and this raises serialization_failure.
                insert into semel.operation select locked.* on conflict (op) do nothing;
            else
                update semel.operation o
                   set token = locked.token, due = locked.due, state = locked.state, scope = locked.scope,
                       key = locked.key, record = locked.record, outcome = null
                 where o.op = named.id;
            end if;
            if found then
                answer := 'claimed';
                return;
            end if;
            token := null;
            continue;
        end if;

        perform semel._check(held, named.written, key);
        read := semel._read(held.record);
        -- I7: first of all, on every path.
        if read.fingerprint <> print then
            answer := 'mismatch';
            return;
        end if;
        if held.state = 3 then
            answer := 'replay';
            status := coalesce(semel._number(read.fields[18]), 0);
            outcome := held.outcome;
            outcome_kept := held.outcome is not null;
            settled_at := semel._number(read.fields[19]);
            return;
        end if;
        if held.state = 2 then
            answer := 'unknown';
            since := coalesce(semel._number(read.fields[14]), semel._number(read.fields[5]), 0);
            return;
        end if;
        if held.due > now_at then
            answer := 'busy';
            retry_after := held.due - now_at;
            return;
        end if;
        -- The lease ran out, and a transaction has no lease to take it over with. Told once, it stays unknown.
        select * into locked from semel.operation o where o.op = named.id for update skip locked;
        if locked.op is null then
            answer := 'busy';
            retry_after := 500000;
            return;
        end if;
        continue when locked is distinct from held;
        read.fields[14] := semel._number(held.due);
        read.events := semel._remembered(read.events, semel._event(3, now_at, held.token));
        locked.state := 2;
        locked := semel._written(locked, read);
        update semel.operation o set state = locked.state, due = locked.due, record = locked.record where o.op = named.id;
        answer := 'unknown';
        since := held.due;
        return;
    end loop;
end $$;

-- Claims (scope, key) in this transaction. Write `select * from semel.claim(…)`: one row with the answer
--   claimed   yours: do the writes, then settle under `token`, all in this transaction
--   replay    done before: `status`, `outcome` (null if not `outcome_kept`), `settled_at`
--   busy      somebody holds a live lease: try again after `retry_after`
--   mismatch  the key was used for another request
--   unknown   a holder vanished in mid-effect `since` then: a person decides
--   expired   absent, and the time inside the UUIDv7 key says that its record may have been swept
-- `retention`: how long the operation is remembered, null for ever; `response_retention`: how long its outcome.
-- Raises serialization_failure (40001): roll back and run the transaction again; data_corrupted (XX001): the row is damaged.
create function semel.claim(scope text, key text, fingerprint bytea, retention interval default null,
                            response_retention interval default '24 hours', correlation text default '',
                            out answer text, out token bigint, out status int, out outcome bytea,
                            out outcome_kept boolean, out settled_at timestamptz, out since timestamptz,
                            out retry_after interval)
language plpgsql volatile as $$
declare
    claimed pg_catalog.record := semel._claim(scope, key, fingerprint, semel._micros(retention),
                                              semel._micros(response_retention), correlation, null);
begin
    answer := claimed.answer;
    token := claimed.token;
    status := claimed.status;
    outcome := claimed.outcome;
    outcome_kept := claimed.outcome_kept;
    settled_at := semel._time(claimed.settled_at);
    since := semel._time(claimed.since);
    retry_after := semel._span(claimed.retry_after);
end $$;

-- ---- settle -----------------------------------------------------------------------------------------------------

-- Settle, which also tells what is held where that is `settled`. A null outcome is a tombstone, a null attempt is any.
create function semel._settle(scope text, key text, token bigint, attempt bytea, status int, outcome bytea,
                              out answer text, out held_status int, out held_outcome bytea)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    named  record := semel._operation(scope, key);
    held   semel.operation;
    read   semel._record;
    now_at bigint;
begin
    if token is null or status is null then
        raise exception 'settle: token and status must be given' using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(outcome) > 67108864 then
        raise exception 'settle: an outcome has at most 64 MiB; settle a larger one without it, as a tombstone'
            using errcode = 'invalid_parameter_value';
    end if;
    select * into held from semel.operation o where o.op = named.id for update;
    if held.op is null or held.state = 0 and octet_length(held.record) = 0 then
        answer := 'fenced';
        return;
    end if;
    perform semel._check(held, named.written, key);
    read := semel._read(held.record);
    -- I3
    if held.token <> token or held.state <> 3 and attempt is not null and attempt is distinct from read.fields[3] then
        answer := 'fenced';
        return;
    end if;

    if held.state = 3 then
        held_status := coalesce(semel._number(read.fields[18]), 0);
        held_outcome := held.outcome;
        -- Only the transaction that claimed it may give the outcome (I2): to all others it is settled as it is.
        if substr(read.fields[3], 1, 8) is distinct from semel._this_transaction()
           or read.flags & 4 = 0 and (held_status, held_outcome) is distinct from (status, outcome) then
            answer := 'settled';
            return;
        end if;
        read.flags := read.flags & ~4;
    else
        now_at := semel._clock();
        read.flags := read.flags & ~1;
        read.fields[5] := null;
        read.fields[14] := null;
        read.fields[19] := semel._number(now_at);
        read.events := semel._remembered(read.events, semel._event(6, now_at, token));
        read.checkpoints := '{}';
    end if;
    answer := 'ok';
    held_status := null;
    held_outcome := null;
    read.flags := read.flags & ~8 | case when outcome is null then 0 else 8 end;
    read.fields[18] := semel._number(nullif(status, 0));
    held.state := 3;
    held.outcome := outcome;
    held := semel._written(held, read);
    update semel.operation o
       set state = held.state, due = held.due, record = held.record, outcome = held.outcome
     where o.op = named.id;
end $$;

-- Gives the outcome of an operation that this transaction has claimed, or that a lease holds under `token` (the policy
-- `joined`). A null outcome keeps the status only. Answers
--   ok       this transaction settles it
--   settled  it was settled before, by another transaction or with another outcome: roll back
--   fenced   somebody else holds it now, or nobody: roll back
-- After anything but `ok` the writes of this transaction must not commit: prefer settle_or_fail, which makes sure of it.
create function semel.settle(scope text, key text, token bigint, status int default 0, outcome bytea default null)
returns text
language plpgsql volatile as $$
begin
    return (semel._settle(scope, key, token, null, status, outcome)).answer;
end $$;

-- Settle that raises unless the answer is ok: SM001 fenced, SM002 settled.
create function semel.settle_or_fail(scope text, key text, token bigint, status int default 0,
                                     outcome bytea default null) returns void
language plpgsql volatile as $$
declare
    answer text := semel.settle(scope, key, token, status, outcome);
begin
    if answer operator(pg_catalog.=) 'fenced' then
        raise exception 'settle % %: token % is not the current one', scope, key, token
            using errcode = 'SM001', hint = 'Roll back: somebody else holds this operation.';
    elsif answer operator(pg_catalog.=) 'settled' then
        raise exception 'settle % %: it is settled already', scope, key
            using errcode = 'SM002', hint = 'Roll back, and claim it to see what was answered.';
    end if;
end $$;

-- ---- once -------------------------------------------------------------------------------------------------------

-- Claim, effect and settle in one call. `effect` is one SQL command that returns one value as JSON; it reads `args` as $1
-- and is run with the caller's search_path. What it raises leaves nothing of itself and of the claim. Answers as claim
-- does, with `applied` for claimed: `result` is what the effect returned, now or then (null if not `result_kept`).
create function semel.once(scope text, key text, fingerprint bytea, effect text, args jsonb default '{}',
                           retention interval default null, response_retention interval default '24 hours',
                           correlation text default '',
                           out answer text, out result jsonb, out result_kept boolean, out settled_at timestamptz,
                           out since timestamptz, out retry_after interval)
language plpgsql volatile as $$
declare
    claimed pg_catalog.record;
begin
    select * into claimed from semel.claim(scope, key, fingerprint, retention, response_retention, correlation);
    answer := claimed.answer;
    settled_at := claimed.settled_at;
    since := claimed.since;
    retry_after := claimed.retry_after;
    if answer operator(pg_catalog.=) 'claimed' then
        execute effect into result using args;
        result := coalesce(result, 'null');
        perform semel.settle_or_fail(scope, key, claimed.token, 0, pg_catalog.convert_to(result::pg_catalog.text, 'UTF8'));
        answer := 'applied';
        result_kept := true;
    elsif answer operator(pg_catalog.=) 'replay' then
        result := pg_catalog.convert_from(claimed.outcome, 'UTF8');
        result_kept := claimed.outcome_kept;
    end if;
end $$;

-- ---- natural idempotency: no ledger row ---------------------------------------------------------------------------

-- A condition that an index can serve: the column `name` of row t is what `given` says, which is read as row `other`.
create function semel._same(given jsonb, name text, other text) returns text
language sql immutable strict parallel safe
return format(case when given -> name = 'null' then 't.%1$I is null' else 't.%1$I = %2$I.%1$I' end, name, other);

-- Inserts the row `unique_columns` + `rest` unless there is one with the same unique columns; `held` is the row either
-- way. The table needs a unique constraint on exactly those columns.
create function semel.create_once(target regclass, unique_columns jsonb, rest jsonb default '{}',
                                  out created boolean, out held jsonb)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    given   jsonb := unique_columns || rest;
    names   text;
    targets text;
    matches text;
begin
    select string_agg(quote_ident(name), ', ' order by name),
           string_agg(quote_ident(name), ', ' order by name) filter (where unique_columns ? name),
           string_agg(semel._same(given, name, 'g'), ' and ') filter (where unique_columns ? name)
      into names, targets, matches from jsonb_object_keys(given) as name;
    if targets is null then
        raise exception 'create_once on %: name the columns that make the row unique', target
            using errcode = 'invalid_parameter_value';
    end if;
    for tries in 1..3 loop
        execute format('insert into %1$s as t (%2$s) select %2$s from jsonb_populate_record(null::%1$s, $1)'
                       ' on conflict (%3$s) do nothing returning to_jsonb(t)', target, names, targets)
            into held using given;
        created := held is not null;
        if created then return; end if;
        execute format('select to_jsonb(t) from %1$s t, jsonb_populate_record(null::%1$s, $1) g where %2$s', target, matches)
            into held using given;
        if held is not null then return; end if;
    end loop;
    raise exception 'create_once on %: neither inserted nor found: is somebody deleting the row?', target
        using errcode = 'serialization_failure';
end $$;

-- Sets `column_name` of the row that `id` names from `expected` to `next`, together with `also`. Answers
--   applied          it had the expected value and has the new one now
--   already_applied  it has the new value already
--   conflict         it has neither
--   missing          there is no such row
create function semel.apply_if(target regclass, id jsonb, column_name text, expected text, next text,
                               also jsonb default '{}') returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    given   jsonb := also || jsonb_build_object(column_name, next);
    matches text;
    changes text;
    applied bigint;
    already boolean;
begin
    select string_agg(semel._same(id, name, 'i'), ' and ') into matches from jsonb_object_keys(id) as name;
    if matches is null then
        raise exception 'apply_if on %: name the columns that make the row unique', target
            using errcode = 'invalid_parameter_value';
    end if;
    select string_agg(format('%1$I = g.%1$I', name), ', ') into changes from jsonb_object_keys(given) as name;
    execute format('update %1$s t set %2$s from jsonb_populate_record(null::%1$s, $1) i,'
                   ' jsonb_populate_record(null::%1$s, $2) g, jsonb_populate_record(null::%1$s, $3) e'
                   ' where %3$s and t.%4$I = e.%4$I', target, changes, matches, column_name)
        using id, given, jsonb_build_object(column_name, expected);
    get diagnostics applied = row_count;
    if applied > 0 then return 'applied'; end if;
    execute format('select t.%3$I is not distinct from g.%3$I from %1$s t, jsonb_populate_record(null::%1$s, $1) i,'
                   ' jsonb_populate_record(null::%1$s, $2) g where %2$s', target, matches, column_name)
        into already using id, given;
    return case when already then 'already_applied' when not already then 'conflict' else 'missing' end;
end $$;

-- ---- for people -------------------------------------------------------------------------------------------------

-- Every operation, readable. A damaged row is shown as such.
create view semel.operations as
    select o.op as operation,
           case when read is null then 'damaged'
                when o.state = 1 then 'running' when o.state = 2 then 'unknown' else 'settled' end as state,
           o.scope, o.key, o.token,
           case when o.state = 3 then coalesce(semel._number(read.fields[18]), 0) end as status,
           octet_length(o.outcome) as outcome_bytes,
           semel._time(semel._number(read.fields[12])) as created,
           semel._time(semel._number(read.fields[19])) as settled_at,
           semel._time(semel._number(read.fields[14])) as unknown_since,
           semel._time(semel._number(read.fields[5])) as lease_until,
           case when o.state = 3 then semel._time(o.due) end as due,
           convert_from(read.fields[2], 'UTF8') as correlation
      from semel.operation o
      left join lateral semel._read(o.record) as read on semel._damage(o) is null
     where o.state <> 0 or octet_length(o.record) > 0;

-- What the ledger holds about (scope, key): one row of semel.operations, or none.
create function semel.find(scope text, key text) returns setof semel.operations
language sql stable
begin atomic
    select * from semel.operations o where o.operation = semel.operation_id(find.scope, find.key);
end;
