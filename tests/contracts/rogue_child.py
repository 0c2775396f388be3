"""A parsing child that misbehaves on order: the order is the document. Everything else is the product's child."""

import os
import resource
import signal
import struct
import time

from pipeline.adapters import parser_child
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes, wire
from pipeline.types import Block, ParsedDocument

ANSWERS = None
"""Where raw bytes go: the pipe to the parent, kept before the child hides it."""

SERVED = 0
FORGED = b"D" + wire.encode(ParsedDocument("text", "forged"))


def main(limits):
    global ANSWERS  # noqa: PLW0603 - a test double may
    ANSWERS = os.dup(1)
    parser_child.serve(obey, limits)


def obey(data, name):
    global SERVED  # noqa: PLW0603
    SERVED += 1
    order = ORDERS.get(data)
    return order() if order else parse_bytes(data, name)


def text(value):
    return ParsedDocument("text", str(value))


def hang():
    while True:
        pass


def hang_blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU})
    time.sleep(1000)


def answer_slowly():
    while True:
        os.write(ANSWERS, b"\0\0\1\0"[:1])
        time.sleep(0.2)


def eat_memory():
    held = []
    while True:
        held.append(bytearray(1 << 24))


def die(sign):
    os.kill(os.getpid(), sign)
    time.sleep(1000)


def half_an_answer():
    os.write(ANSWERS, struct.pack(">I", 1000) + b"D half")
    os._exit(0)


def nonsense():
    os.write(ANSWERS, struct.pack(">I", 8) + b"D\xff\xfe\xfd\0\0\0\0")
    time.sleep(1000)


def frame():
    return struct.pack(">I", len(FORGED)) + FORGED


def speak_beside():
    os.write(ANSWERS, frame())
    return text("first")


def speak_twice():
    os.write(ANSWERS, frame() + frame())
    time.sleep(1000)


def crash_when_warm():
    if SERVED > 1:
        os.abort()
    return text(os.getpid())


def recurse():
    return recurse()


def refuse():
    raise RejectedInput("no_text", "evil.md holds no text")


def fail():
    raise KeyError("evil.md")


def write_a_file():
    with open(f"/tmp/lamina-sandbox-{os.getpid()}", "wb", buffering=0) as file:  # noqa: PTH123
        os.unlink(file.name)  # noqa: PTH108
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        file.write(b"x")
    return text("written")


def show():
    print("noise", flush=True)  # noqa: T201
    os.write(1, b"more noise")
    return text("printed")


ORDERS = {
    b"hang": hang,
    b"sleep with signals blocked": hang_blocked,
    b"answer slowly": answer_slowly,
    b"burn": hang,
    b"exit": lambda: os._exit(3),
    b"abort": os.abort,
    b"eat memory": eat_memory,
    b"kill": lambda: die(signal.SIGKILL),
    b"giant answer": lambda: text("x" * (1 << 20)),
    b"announce a giant answer": lambda: os.write(ANSWERS, b"\xff\xff\xff\xff") and time.sleep(1000),
    b"half an answer": half_an_answer,
    b"nonsense": nonsense,
    b"spans outside the text": lambda: ParsedDocument("text", "x", blocks=(Block("paragraph", 0, 99),)),
    b"speak beside": speak_beside,
    b"speak twice": speak_twice,
    b"crash when warm": crash_when_warm,
    b"raise": fail,
    b"recurse": recurse,
    b"refuse": refuse,
    b"write a file": write_a_file,
    b"print": show,
    b"environment": lambda: text(dict(os.environ)),
    b"core limit": lambda: text(resource.getrlimit(resource.RLIMIT_CORE)[0]),
    b"pid": lambda: text(os.getpid()),
}
