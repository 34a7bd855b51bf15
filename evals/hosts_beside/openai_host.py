"""The OpenAI Agents SDK with its compaction session, or with this package's filter over a plain session.

The service behind the compaction session is a fake on the loopback. As the real one it answers with all messages of the
user and one compaction item, whose content here is the summary in base64, where the real one's is encrypted.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agents import Agent, ModelSettings, RunConfig, Runner, SQLiteSession, function_tool
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI

from evals.hosts_beside.play import Stage
from evals.hosts_beside.reader import Reader
from evals.hosts_beside.rows import DESCRIPTION, PROMPT, Call, Row

Item = dict[str, Any]


class OpenAIHost:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def __aenter__(self) -> OpenAIHost:
        @function_tool(description_override=DESCRIPTION)
        async def read(path: str) -> str:
            return self._stage.result(path)

        steps = sum(len(turn.replies) for turn in self._stage.session.turns)
        model = ScriptedModel([ModelStep.respond(self._reply)] * steps)
        # not stored: the service is sent what it shall compact, and needs no memory of its own
        settings = ModelSettings(store=False)
        self._agent = Agent(name="engineer", instructions=PROMPT, tools=[read], model=model, model_settings=settings)
        self._session: Any = SQLiteSession("beside")
        self._shorten: Any = None
        if self._stage.arm == "OpenAI":
            self._session = self._compacting()
        else:
            from evals.hosts_beside.ours import options
            from summarizing_context.adapters.openai_agents import summarizing_filter

            ours, beside = options(self._stage.setting, self._stage.reader)
            self._shorten = summarizing_filter(ours, **beside)
        return self

    def _compacting(self) -> OpenAIResponsesCompactionSession:
        self._service = Service(self._stage.reader)
        self._service.start()
        self._client = AsyncOpenAI(base_url=self._service.address, api_key="none", max_retries=0)

        def is_due(found: Item) -> bool:
            return len(found["compaction_candidate_items"]) >= self._stage.setting

        return OpenAIResponsesCompactionSession(
            "beside", self._session, client=self._client, should_trigger_compaction=is_due
        )

    async def __aexit__(self, *_: object) -> None:
        if self._shorten is not None:
            await self._shorten.close()
            self._session.close()
            return
        await self._client.close()
        self._service.stop()
        self._session.underlying_session.close()

    async def _reply(self, call: Any) -> ModelStep:
        reply = await self._stage.reply([Row("system", call.system_instructions), *rows_of(call.input)])
        calls = [function_call("read", {"path": made.path}, call_id=made.id) for made in reply.calls]
        return ModelStep(output=[assistant_message(reply.text), *calls])

    async def ask(self, prompt: str) -> None:
        config = RunConfig(call_model_input_filter=self._shorten, tracing_disabled=True)
        await Runner.run(self._agent, prompt, session=self._session, run_config=config, max_turns=30)


def rows_of(items: Sequence[Any]) -> Iterator[Row]:
    """What a model gave between two inputs is one row; each input is one."""
    texts: list[str] = []
    calls: list[Call] = []
    for item in [*items, {"role": "end", "content": ""}]:
        kind = item.get("type", "message")
        if kind == "function_call":
            calls.append(Call(item["call_id"], json.loads(item["arguments"])["path"]))
            continue
        if kind == "message" and item["role"] == "assistant" and not calls:
            texts.append(_text(item["content"]))
            continue
        if texts or calls:
            yield Row("assistant", "\n".join(texts), tuple(calls))
            texts, calls = [], []
        if kind == "function_call_output":
            yield Row("tool", _text(item["output"]), answers=item["call_id"])
        elif kind == "compaction":
            yield Row("system", base64.b64decode(item["encrypted_content"]).decode())
        elif item["role"] == "assistant":
            texts.append(_text(item["content"]))
        elif item["role"] != "end":
            yield Row(item["role"], _text(item["content"]))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content)


class Service:
    """`POST /responses/compact` on the loopback."""

    def __init__(self, reader: Reader) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path != "/responses/compact":
                    self.send_error(404)
                    return
                body = json.dumps(_compacted(asked, reader)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._serving = threading.Thread(target=self._server.serve_forever, name="service")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        self._serving.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()


def _compacted(asked: Item, reader: Reader) -> Item:
    rows = list(rows_of(asked["input"]))
    summary = reader.summarize_here([Row("system", asked.get("instructions") or PROMPT), *rows])
    users = [_user(row.text, at) for at, row in enumerate(rows) if row.role == "user"]
    hidden = base64.b64encode(summary.encode()).decode()
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": hidden}
    usage = {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }
    head = {"id": "resp_c", "created_at": 0, "object": "response.compaction"}
    return {**head, "output": [*users, item], "usage": usage}


def _user(text: str, at: int) -> Item:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "id": f"msg_{at}", "status": "completed", "role": "user", "content": content}
