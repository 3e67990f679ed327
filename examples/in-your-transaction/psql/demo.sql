\set ON_ERROR_STOP on
\set key payment-1
\set amount 30
\ir pay.sql
\ir pay.sql
\set amount 31
\ir pay.sql
\set key payment-2
\set amount 30
\ir pay.sql
-- The wallet has too little: the check fails, and with it the whole transaction, claim included.
\set ON_ERROR_STOP off
\set key payment-3
\set amount 50
begin;
select token from semel.claim('acme/payments', :'key', semel.fingerprint('bob ' || :amount)) \gset
update wallet set balance = balance - :amount where id = 'bob';
rollback;
\echo :key, :amount: failed, nothing of it remains
\set ON_ERROR_STOP on
\set amount 40
\ir pay.sql
