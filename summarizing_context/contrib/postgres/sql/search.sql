-- The queries about searching, each under its name and purpose.

-- add_words: of a part of a text
insert into store.words (number, part, words) values (?, ?, to_tsvector('store.plain', ?));

-- remove_words: of texts
delete from store.words where number = any(:numbers);

-- best_matches: rows of one run that match, by relevance; of equals the newest message, then the newest summary
select number, max(ts_rank_cd(words, query, 1)) as score
from store.words, websearch_to_tsquery('store.plain', :match) as query
where number between :first and :last and words @@ query
group by number order by score desc, number > 0 desc, abs(number) desc;

-- count_matches: how many texts match, counted up to `most`
select count(distinct number) from (
    select number from store.words where words @@ websearch_to_tsquery('store.plain', :match) limit :most
) as counted;

-- newest_matches: rows of one run that match, the newest first; as relevant as common words are
select number, 1e-6 from store.words
where number between :first and :last and words @@ websearch_to_tsquery('store.plain', :match)
order by number desc limit :most;
