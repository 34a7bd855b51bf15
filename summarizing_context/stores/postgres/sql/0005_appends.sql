-- Appends of many sessions in one statement, which the server plans once: all, or none where a session was lost.
create function store.commit_appends(
    this_writer text, this_batch bigint, lease double precision, changed_at text,
    session_ids text[], fences bigint[], branches bigint[], starts bigint[], stops bigint[],
    entry_branches bigint[], entry_positions bigint[], messages bytea[], all_facts bytea[],
    rule_sessions text[], digests bytea[], versions text[], rule_positions bigint[], all_rules bytea[]
) returns void language plpgsql as $$
declare changed bigint;
begin
    perform set_config('lock_timeout', '10s', true);
    update store.writers set batch = this_batch, until = clock_timestamp() + make_interval(secs => lease)
    where id = this_writer;
    get diagnostics changed = row_count;
    perform store.expect(changed, 1);
    update store.sessions set stop = given.stop, updated_at = changed_at
    from unnest(session_ids, fences, branches, starts, stops) as given (session_id, fence, branch, start, stop)
    where sessions.session_id = given.session_id and sessions.writer = this_writer and sessions.fence = given.fence
    and sessions.branch = given.branch and sessions.stop = given.start;
    get diagnostics changed = row_count;
    perform store.expect(changed, cardinality(session_ids));
    insert into store.entries (branch, position, message, facts)
    select * from unnest(entry_branches, entry_positions, messages, all_facts);
    insert into store.rules (session_id, digest, version, position, rules)
    select * from unnest(rule_sessions, digests, versions, rule_positions, all_rules) on conflict do nothing;
end $$;
