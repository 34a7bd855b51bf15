-- The queries about vectors of a database with pgvector, whose schema stands for `pgvector.`.

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
