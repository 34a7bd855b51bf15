"""What the models of `eval ask` say: a writer of questions, a summarizer, a reader and a judge."""

import json

from .protocols import Json, system_text, user_text
from .serve import honest
from .server import Answer, Request

WRITER, JUDGE = "gpt-5.4-mini", "gpt-5.4"
QUESTIONS = [
    {"category": "rule", "question": "What is forbidden?", "answer": "Restarts by day.", "evidence": [0, 2]},
    {"category": "fact", "question": "Which port is used?", "answer": "8080", "evidence": [3]},
    {"category": "absent", "question": "Who pays?", "answer": "not in the record", "evidence": []},
]


def kind_of(body: Json) -> str:
    beginnings = {"You write a memory": "questions", "You take a memory": "reader", "You grade": "judge"}
    return next((kind for words, kind in beginnings.items() if system_text(body).startswith(words)), "summary")


def says(body: Json) -> str:
    """Three questions; the first one answered from every view; every answer right, an abstention that."""
    content = user_text(body)
    match kind_of(body):
        case "questions":
            return f"Here they are:\n{json.dumps({'questions': QUESTIONS})}"
        case "reader":
            listed = json.loads(content[content.rindex("Questions: ") + len("Questions: ") :])
            return f"```json\n{json.dumps({listed[0]['id']: 'Restarts by day.'})}\n```"
        case "judge":
            asked = json.loads(content[content.index("{") : content.rindex("}") + 1])["questions"]
            assert all(set(one["answers"]) <= {"A", "B", "C", "D"} for one in asked)
            marks = {"rule": 2, "fact": 0, "absent": 2}
            given = {one["id"]: dict.fromkeys(one["answers"], marks[one["category"]]) for one in asked}
            return f"Here it is:\n{json.dumps(given)}"
    return honest(body)


def answering(request: Request) -> Answer:
    return Answer(model=says)
