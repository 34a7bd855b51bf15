-- How many texts the index of words has, and how many words: sums, kept by those who add and remove.
--
-- Each of these inserts a row; nobody waits for another. Who indexes makes one row of those that are there.

create table store.word_totals (
    id bigint generated always as identity primary key,
    texts bigint not null,
    words bigint not null
);

-- `words.size` is that of the whole text now, also where it has several parts.
update store.words set size = whole.size
from (select number, sum(size) as size from store.words group by number having count(*) > 1) as whole
where words.number = whole.number;

insert into store.word_totals (texts, words)
select count(*), coalesce(sum(size), 0) from store.words where part = 0;
