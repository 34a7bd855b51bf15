"""`prompts`: list, show, render."""

from __future__ import annotations

from pathlib import Path

from cli.commands import Runner, says, write_transcript

from summarizing_context.summarizers.prompts import latest, load, names

OWN = "---\nname: segment\nversion: 9\npurpose: Mine.\nplaceholders: max_tokens\n---\n{{max_tokens}} \x1b[31mtokens"


def own_folder(root: Path) -> Path:
    (root / "segment").mkdir(parents=True)
    (root / "segment" / "v9.md").write_text(OWN, encoding="utf8")
    return root


def test_the_list_names_each_prompt_with_its_tokens_and_hash(run: Runner):
    ran = run("prompts", "list", "--json", "-")
    assert [row["name"] for row in ran.document["prompts"]] == names()
    most = {"rules/v1": 600}
    assert all(100 < row["fixed_tokens"] <= most.get(row["name"], 450) for row in ran.document["prompts"])
    assert load("segment/v3").hash[:12] in run("prompts", "list").out


def test_one_prompt_is_shown_with_its_text(run: Runner):
    assert run("prompts", "show", "segment").out == f"{latest('segment').text}\n"  # a file to begin with
    assert run("prompts", "show", "rollup/v4", "--json", "-").document["text"] == load("rollup/v4").text


def test_a_folder_of_the_user_goes_before_what_is_shipped(run: Runner, tmp_path: Path):
    folder = own_folder(tmp_path / "mine")
    ran = run("prompts", "show", "segment", "--prompts", folder)
    assert ("segment/v9: Mine." in ran.err, "\x1b" in ran.out) == (True, False)
    assert run("prompts", "show", "focus", "--prompts", folder).status == 0
    (folder / "segment" / "v9.md").write_text("no front matter", encoding="utf8")
    assert run("prompts", "list", "--prompts", folder).status == 2


def test_a_request_is_rendered_for_a_transcript(run: Runner, tmp_path: Path):
    messages = [says("user", f"{at} " + "look at the log in /var/log/app.log again " * 200) for at in range(6)]
    file = write_transcript(tmp_path / "run.jsonl", messages)
    rendered = run("prompts", "render", "segment", file, "--json", "-").document
    assert rendered["system"] == latest("segment").render(max_tokens=rendered["max_tokens"])
    assert messages[0]["content"][:40] in rendered["user"]
    ran = run("prompts", "render", "segment", file, "--number", 99)
    assert (ran.status, f"there are {rendered['among']}; give --number" in " ".join(ran.err.split())) == (2, True)
