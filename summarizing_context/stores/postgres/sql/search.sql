-- The queries about searching, by words and by vectors, each under its name and purpose. `pgvector.` stands for the
-- schema of that extension.

-- add_words: of texts, by parts
insert into store.words (number, part, words)
select number, part, to_tsvector('store.plain', text)
from unnest(cast(:numbers as bigint[]), cast(:parts as bigint[]), cast(:texts as text[])) as given (number, part, text);

-- best_matches: rows of one run that match, by relevance; of equals the newest message, then the newest summary
select number, max(ts_rank_cd(words, query, 1)) as score
from store.words, websearch_to_tsquery('store.plain', :match) as query
where number between :first and :last and words @@ query
group by number order by score desc, number > 0 desc, abs(number) desc;

-- count_matches: how many texts match, counted up to `most`
select count(distinct number) from (
    select number from store.words where words @@ websearch_to_tsquery('store.plain', :match) limit :most
) as counted;

-- newest_matches: rows of one run that match, the newest first
select number from store.words
where number between :first and :last and words @@ websearch_to_tsquery('store.plain', :match)
order by number desc limit :most;

-- save_meaning: keep a vector, for pgvector too; an older one of the same text is replaced
insert into store.vectors (owner, number, recipe, vector, meaning)
values (:owner, :number, :recipe, :vector, cast(:meaning as pgvector.vector))
on conflict (owner, number, recipe) do update set vector = excluded.vector, meaning = excluded.meaning;

-- near_meanings: those of the numbers, a JSON list, and of the query's length, with the cosine of each; all have length 1
select number, -(meaning operator(pgvector.<#>) cast(:query as pgvector.vector)) from store.vectors
where owner = :owner and recipe = :recipe
and number in (select cast(asked as bigint) from jsonb_array_elements_text(cast(:numbers as jsonb)) as asked)
and octet_length(vector) = :size and 4 * pgvector.vector_dims(meaning) = :size;

-- vectors_without_meaning: those of the numbers, a JSON list, that pgvector does not have
select number, vector from store.vectors where owner = :owner and recipe = :recipe
and number in (select cast(asked as bigint) from jsonb_array_elements_text(cast(:numbers as jsonb)) as asked)
and 4 * pgvector.vector_dims(meaning) is distinct from octet_length(vector);
