drop table if exists orders, article;
create table article (name text primary key);
create table orders (id text primary key, article text not null references article);
insert into article values ('book'), ('pen');
