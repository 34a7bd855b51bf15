"""`python -m summarizing_context.evaluation.real`: record by hand, with a model that reads and writes files."""

from __future__ import annotations

import argparse
from pathlib import Path

import anyio

from summarizing_context.evaluation.real import exchange
from summarizing_context.evaluation.real.arms import ARMS, USUAL, build
from summarizing_context.evaluation.real.cases import add_case
from summarizing_context.evaluation.real.recording import Recording


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(prog="python -m summarizing_context.evaluation.real", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("evals/real"), help="the folder of the recording")
    commands = parser.add_subparsers(required=True)

    add = commands.add_parser("add", help="add a log, as far as its cut, to the cases")
    add.add_argument("log", type=Path)
    add.add_argument("--name", help="of the case; else that of the file")
    add.add_argument("--budget", type=int, required=True, help="tokens of a view")
    where = add.add_mutually_exclusive_group(required=True)
    where.add_argument("--cut", type=int, help="messages before the view")
    where.add_argument("--share", type=float, help="of the characters before the view")
    add.add_argument("--source", required=True)
    add.add_argument("--licence", required=True)
    add.add_argument("--session", default="", help="cases of one session count as one in intervals")
    add.set_defaults(run=_add)

    export = commands.add_parser(
        "export", help="write what is missing: requests, views and questions, answers to judge"
    )
    export.add_argument("--to", type=Path, required=True, help="the folder of the exchange")
    export.add_argument("--arms", default=",".join(USUAL), help=f"of {', '.join(ARMS)}")
    export.add_argument("--cases", default="", help="names; all if none is given")
    export.set_defaults(run=_export)

    take = commands.add_parser("import", help="take in replies, questions, answers and marks")
    take.add_argument("--from", dest="source", type=Path, required=True, help="the folder of the exchange")
    take.add_argument("--model", required=True, help="what kind of model wrote them, and when")
    take.add_argument("--reading", default="isolated", help="how requests were read")
    take.set_defaults(run=_import)

    given = parser.parse_args()
    given.run(given)


def _add(given: argparse.Namespace) -> None:
    case = add_case(
        given.data,
        given.log,
        name=given.name,
        cut=given.cut if given.cut is not None else given.share,
        budget=given.budget,
        source=given.source,
        licence=given.licence,
        session=given.session,
    )
    print(f"{case.name}: cut before message {case.cut}")


def _export(given: argparse.Namespace) -> None:
    recording = Recording.open(given.data)
    wanted = [name for name in given.cases.split(",") if name]
    missing = []
    for case in recording.cases:
        if wanted and case.name not in wanted:
            continue
        messages, arms = recording.messages(case), given.arms.split(",")
        built = anyio.run(build, case, messages, recording.replies, arms, recording.settings)
        missing += built.missing
        exchange.write_views(given.to, case, built, recording.questions(case))
        if any(name == case.name for name, _ in recording.answers):
            exchange.write_judging(given.to, recording, case)
        sizes = ", ".join(f"{arm} {view.tokens:,}" for arm, view in built.views.items()) or "no views yet"
        print(f"{case.name}: {len(built.missing)} requests missing, {built.waiting} wait for them; {sizes}")
    print(f"{exchange.write_requests(given.to, missing)} requests without a reply are in {given.to / 'todo'}")


def _import(given: argparse.Namespace) -> None:
    recording, by = Recording.open(given.data), exchange.By(given.model, given.reading)
    questions = exchange.take_questions(given.source, recording)
    replies = exchange.take_replies(given.source, recording, by)
    answers = exchange.take_answers(given.source, recording, by)
    marks = exchange.take_marks(given.source, recording, by)
    recording.save()
    print(f"{questions} files of questions, {replies} replies, answers from {answers} views, {marks} marks")


main()
