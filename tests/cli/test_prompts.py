"""`prompts`: list, show, render."""

from pathlib import Path

from cli.commands import Runner, says, write_transcript

from summarizing_context.summarizers.prompts import latest, load, names

OWN = "---\npurpose: Mine.\n---\n{{max_tokens}} \x1b[31mtokens"


def test_one_prompt_is_shown_with_its_text(run: Runner):
    assert run("prompts", "show", "segment").out == f"{latest('segment').text}\n"  # a file to begin with
    assert run("prompts", "show", "rollup/v4", "--json", "-").document["text"] == load("rollup/v4").text
    listed = run("prompts", "list", "--json", "-").document["prompts"]
    assert [row["name"] for row in listed] == names()
    assert all(100 < row["fixed_tokens"] <= (600 if row["name"] == "rules/v1" else 450) for row in listed)
    assert load("segment/v3").hash[:12] in run("prompts", "list").out


def test_a_folder_of_the_user_goes_before_what_is_shipped(run: Runner, tmp_path: Path):
    own = tmp_path / "mine" / "segment" / "v9.md"
    own.parent.mkdir(parents=True)
    own.write_text(OWN, encoding="utf8")
    ran = run("prompts", "show", "segment", "--prompts", tmp_path / "mine")
    assert ("segment/v9: Mine." in ran.err, "\x1b" in ran.out) == (True, False)
    assert run("prompts", "show", "memory", "--prompts", tmp_path / "mine").status == 0
    own.write_text("no front matter", encoding="utf8")
    assert run("prompts", "list", "--prompts", tmp_path / "mine").status == 2


def test_a_request_is_rendered_for_a_transcript(run: Runner, tmp_path: Path):
    messages = [says("user", f"{at} " + "look at the log in /var/log/app.log again " * 200) for at in range(6)]
    file = write_transcript(tmp_path / "run.jsonl", messages)
    rendered = run("prompts", "render", "segment", file, "--json", "-").document
    assert rendered["system"] == latest("segment").render(max_tokens=rendered["max_tokens"])
    assert messages[0]["content"][:40] in rendered["user"]
    ran = run("prompts", "render", "segment", file, "--number", 99)
    assert (ran.status, f"there are {rendered['among']}; give --number" in " ".join(ran.err.split())) == (2, True)
