"""Google's ADK: EventsCompactionConfig by tokens, as its request processor runs it before each call of the model."""

from itertools import count
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps._configs import EventsCompactionConfig
from google.adk.apps.compaction import _run_compaction_for_token_threshold_config
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events.event import Event
from google.adk.flows.llm_flows.context._contents import _get_contents
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.genai import types

from evals.performance.managers import KEEP, TRIGGER, Manager
from evals.performance.tokens import Message, calls_of, message_tokens, rows_of

AGENT = "agent"


class ChatModel(BaseLlm):
    """A model whose answers are the fake summarizer's."""

    fake: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        asked = "\n".join(part.text or "" for content in llm_request.contents for part in content.parts)
        text = await self.fake.summarize(asked)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


class Adapter(Manager):
    """A session of events. A reply carries the tokens of its request, by which the threshold is checked."""

    async def open(self) -> None:
        model = ChatModel(model="fake", fake=self.model)
        self.agent, self.service = LlmAgent(name=AGENT, model=model), InMemorySessionService()
        self.config = EventsCompactionConfig(
            summarizer=LlmEventSummarizer(llm=model),
            token_threshold=int(self.budget * TRIGGER),
            event_retention_size=KEEP,
        )
        self.clock, self.tokens = count(1), 0
        self.session = await self.service.create_session(app_name="bench", user_id="one")

    async def append(self, message: Message) -> None:
        role, text = message["role"], message["content"]
        parts = [types.Part(text=text)]
        if role == "tool":
            answer = types.FunctionResponse(id=message["tool_call_id"], name="read_file", response={"result": text})
            parts = [types.Part(function_response=answer)]
        called = (types.FunctionCall(id=id, name=name, args=given) for id, name, given in calls_of(message))
        parts += [types.Part(function_call=call) for call in called]
        content = types.Content(role="model" if role == "assistant" else "user", parts=parts)
        event = Event(author="user" if role == "user" else AGENT, content=content, timestamp=float(next(self.clock)))
        if role == "assistant" and self.tokens:
            event.usage_metadata = types.GenerateContentResponseUsageMetadata(prompt_token_count=self.tokens)
        await self.service.append_event(session=self.session, event=event)

    async def view(self) -> Any:
        await _run_compaction_for_token_threshold_config(
            config=self.config, session=self.session, session_service=self.service, agent=self.agent, agent_name=AGENT
        )
        return _get_contents(None, self.session.events, AGENT, preserve_function_call_ids=True)

    def shown(self, view: Any) -> list[Message]:
        rows = super().shown(view)
        self.tokens = sum(map(message_tokens, rows))
        return rows

    def plain(self, message: types.Content) -> list[Message]:
        parts = message.parts
        answers = [part.function_response for part in parts if part.function_response]
        calls = [part.function_call for part in parts if part.function_call]
        text = "".join(part.text or "" for part in parts)
        role = "user" if message.role == "user" else "assistant"
        asked = [(call.id, call.name, call.args) for call in calls]
        return rows_of(role, text, asked, [(one.id, one.response["result"]) for one in answers])
