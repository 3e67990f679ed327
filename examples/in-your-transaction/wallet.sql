drop table if exists wallet;
create table wallet (id text primary key, balance int not null check (balance >= 0));
insert into wallet values ('bob', 100);
