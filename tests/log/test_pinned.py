"""Lists of pins: ids, and what stays when the log is another one."""

from __future__ import annotations

from summarizing_context.log.pins import NO_PINS, Pin, decode_pins, encode_pins

A, B, C = b"a", b"b", b"c"


def test_ids_are_never_used_again_and_what_is_pinned_twice_has_one():
    pins, one = NO_PINS.with_message(3, A)
    pins, two = pins.with_text("a text")
    assert (one, two) == ("p1", "p2")
    assert pins.with_message(3, A) == (pins, "p1")
    assert pins.with_text("a text") == (pins, "p2")
    rest = pins.without("p2")
    assert rest is not None
    assert rest.without("p2") is None
    assert rest.with_text("another")[1] == "p3"
    assert decode_pins(encode_pins(rest)) == rest
    assert decode_pins(encode_pins(NO_PINS)) == NO_PINS


def test_a_message_is_found_again_where_it_stands_now():
    pins = NO_PINS.with_message(1, B)[0].with_text("a text")[0].with_message(2, C)[0]
    assert pins.held_by([A, B, C]) == pins
    assert pins.held_by([B, A, C, B]).indexes == [0, 2]
    assert pins.held_by([A, C]).pins == (pins.pins[1], Pin("p3", 1, None, C.hex()))
    assert pins.held_by([]).pins == ()
    assert pins.held_by([]).made == 3
