-- The queries about searching, each under its name and purpose.

-- add_words: of a part of a text
insert into store.words (number, part, words) values (?, ?, to_tsvector('store.plain', ?));

-- best_matches: rows that match, by relevance; of equals the newest message, then the newest summary
select number, max(ts_rank_cd(words, query, 1)) as score
from store.words, websearch_to_tsquery('store.plain', :match) as query where words @@ query
group by number order by score desc, number > 0 desc, abs(number) desc;
