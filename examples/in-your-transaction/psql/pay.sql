-- Takes :amount from bob's wallet, once per :key.
begin;
select answer, answer = 'claimed' as mine, token, ', ' || convert_from(outcome, 'UTF8') as told
  from semel.claim('acme/payments', :'key', semel.fingerprint('bob ' || :amount)) \gset
\if :mine
    update wallet set balance = balance - :amount where id = 'bob' returning balance \gset
    select semel.settle_or_fail('acme/payments', :'key', :token, 200, convert_to('balance ' || :balance, 'UTF8')) \g /dev/null
    commit;
    \echo :key, :amount: paid, balance :balance
\else
    commit;
    \if :{?told} \else \set told '' \endif
    \echo :key, :amount: :answer:told
\endif
