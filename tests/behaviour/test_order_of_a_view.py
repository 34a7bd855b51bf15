"""A view shows the system prompt, the first request, the header, what is pinned, and the newest messages."""

from summarizing_context import Settings
from tests.behaviour.contexts import begun
from tests.laws.builders import assistant, user


async def test_the_first_request_stands_before_the_summaries_and_the_newest_message_at_the_end():
    log = [{"role": "system", "content": "You fix bugs."}, user("Find the leak in parser.py.")]
    for step in range(60):
        log.append(assistant(f"Step {step}: " + "I have read a part of it and found nothing. " * 6))
        log.append(user(f"Go on with part {step}, and tell what you find there."))
    async with begun(log, of=Settings, max_tokens=2_500, count_tokens=None) as context:
        view = await context.get_messages_for_request()
        await context.add_message(assistant("Nothing there either."))
        longer = await context.get_messages_for_request()
        last = context.last_view
    ours = [at for at, row in enumerate(view) if row not in log]
    assert ours[0] == 2
    assert view[:2] == log[:2]
    assert view[ours[-1] + 2 :] == log[-len(view[ours[-1] + 2 :]) :]
    assert view[-1] == log[-1]
    assert longer == [*view, assistant("Nothing there either.")]
    assert last is not None
    assert last.stable_prefix_messages == len(view)
