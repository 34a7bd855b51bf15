"""`import`: sessions of transcripts in a store."""

from pathlib import Path

from cli.commands import Runner, says, write_transcript

from summarizing_context.evaluation.demo import demo_session

CODEX = Path(__file__).parents[1] / "data" / "clients" / "codex"
SHORT = [says("user", "hello"), says("assistant", "hi")]


def test_the_sessions_of_a_client_go_into_a_store_and_can_be_searched(run: Runner, tmp_path):
    ran = run("import", CODEX, "--store", tmp_path / "logs.db", "--json", "-")
    assert (ran.status, ran.err) == (0, "Importing 1 file.\n")
    (row,) = ran.document["sessions"]
    assert (row["format"], row["messages"], row["added"]) == ("codex", 19, 19)
    assert ran.document["skipped"]["session_meta"] == 1
    shown = run("import", CODEX, "--store", tmp_path / "more.db").out
    assert "Skipped, being no messages: 15 event_msg:item_completed," in " ".join(shown.split())
    found = run("search", row["session_id"], "negative", "--store", tmp_path / "logs.db")
    assert "A test of negative numbers is still" in " ".join(found.out.split())


def test_a_second_import_adds_what_is_new_and_keeps_another_session_of_the_name_apart(
    run: Runner, tmp_path, monkeypatch
):
    store = tmp_path / "logs.db"
    path = write_transcript(tmp_path / "log.jsonl", SHORT)
    with monkeypatch.context() as patch:
        patch.setenv("FORCE_COLOR", "1")  # as on a terminal, where progress is shown
        ran = run("import", path, "--store", store)
    assert (ran.status, all(words in ran.err for words in ("0/1", "-:--:--", "2 new messages"))) == (0, True)
    write_transcript(path, [*SHORT, says("user", "more")])
    assert [row["added"] for row in run("import", path, "--store", store, "--json", "-").document["sessions"]] == [1]
    write_transcript(path, [says("user", "something else")])
    (other,) = run("import", path, "--store", store, "--json", "-").document["sessions"]
    assert (other["session_id"], other["messages"], other["added"]) == ("log:2", 1, 1)
    listed = run("sessions", "list", "--store", store).out
    assert [name in listed for name in ("log ", "log:2")] == [True, True]


def test_a_named_format_stands_in_the_place_of_the_one_that_is_seen(run: Runner, tmp_path):
    path = write_transcript(tmp_path / "log.jsonl", [{"role": "user", "content": "hello", "parts": [{"text": "hi"}]}])
    for named, words in ((None, "hello"), ("gemini", "hi")):
        store = tmp_path / f"{named}.db"
        ran = run("import", path, "--store", store, *(["--format", named] if named else []), "--json", "-")
        assert ran.document["sessions"][0]["format"] == (named or "messages")
        assert words in run("search", "log", words, "--store", store).out


def test_every_command_names_the_lines_of_a_transcript_that_it_skips(run: Runner, tmp_path):
    path = write_transcript(tmp_path / "log.jsonl", [says("user", "hello"), *demo_session(turns=3)])
    path.write_bytes(path.read_bytes().replace(b"\n", b'\n{"role": "us\n', 1))
    commands: dict[str, list[object]] = {
        "import": [path, "--store", tmp_path / "logs.db"],
        "replay": [path, "--budget", "4k"],
        "replay --dry-run": [path, "--budget", "4k", "--summarizer", "openai", "--model", "gpt-5.4-mini"],
        "prompts render": ["segment", path],
        "eval run": [path, "--budget", "4k", "--jobs", 1, "--out", tmp_path / "report"],
    }
    for command, arguments in commands.items():
        ran = run(*command.split(), *arguments)
        assert ran.status == 0, ran.err
        assert f"skipped: {path}:2: not JSON" in "".join(ran.err.split("\n")), command


def test_an_imported_session_shows_its_state_before_any_request(run: Runner, tmp_path):
    store = tmp_path / "logs.db"
    said = [says("user" if at % 2 == 0 else "assistant", f"word {at} " * 900) for at in range(120)]
    run("import", write_transcript(tmp_path / "log.jsonl", said), "--store", store)
    ran = run("status", "log", "--store", store)
    assert ran.status == 0
    assert "none yet; the next view would be the first" in ran.out
    assert "made by" in ran.out
    assert run("search", "log", "word", "--store", store).out.rstrip().endswith("more words find others.")
    assert "more words" not in run("search", "log", "none", "--store", store).out
