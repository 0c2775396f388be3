"""Port `Parser` over LlamaParse: the real clients, over loopback, against a server that speaks both of its interfaces."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from email.utils import formatdate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llamaparse_server import Fault, LlamaParseServer, Plan

from pipeline.adapters.memo_sqlite import SqliteMemo
from pipeline.adapters.memory import MemoryMemo, VirtualClock
from pipeline.adapters.parser_inprocess import InProcessParser
from pipeline.adapters.parser_llamaparse import LlamaParser, LlamaParseSettings, RemoteJob
from pipeline.adapters.parser_llamaparse_jobs import JobBook, MemoJobStore, RemotePage
from pipeline.adapters.parser_llamaparse_pages import document_of
from pipeline.errors import PipelineError, RejectedInput, Unavailable
from pipeline.parse import wire
from pipeline.parse.markdown import structure

KEY = 'llx-secret/0"1\\2'  # with characters that JSON escapes
PDF = b"%PDF-1.7\na document that only the service has to understand\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
LOCKED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")
WALL_NOW = 1_700_000_000.0
OPENED: list[LlamaParser] = []
both = pytest.mark.parametrize("interface", ["http", "package"])
at_once = Plan(pending=0)


@pytest.fixture(autouse=True)
def _closing():
    yield
    while OPENED:
        OPENED.pop().close()


def parser_of(server, memo=None, *, clock=None, **changes):
    chosen = {"interface": "http", "deadline_s": 30.0, "call_s": 10.0, "poll_first_s": 0.01, "poll_max_s": 0.05}
    given_ = LlamaParseSettings(KEY, base_url=server.base_url, **(chosen | changes))
    store = MemoJobStore(MemoryMemo() if memo is None else memo)
    OPENED.append(LlamaParser(given_, InProcessParser(), store, clock or VirtualClock(WALL_NOW)))
    return OPENED[-1]


@contextmanager
def serving(plan=None, **changes):
    with LlamaParseServer(plan) as server:
        yield server, parser_of(server, **changes)


def error_of(parser, data=PDF, name="a.pdf"):
    with pytest.raises(PipelineError) as caught:
        parser.parse(data, name)
    return caught.value


# What comes back.


@both
def test_pages_offsets_headings_tables_and_lists(interface):
    """A document has the service's pages at exact offsets, and our own blocks."""
    pages = (
        "# Report\n\nIntro é 𝄞.\n",
        "## Numbers\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n",
        "NO_CONTENT_HERE",
        "Last page.\r\n\r\n",
    )
    with serving(Plan(pages, pending=1), interface=interface) as (server, parser):
        document = parser.parse(PDF, "deep/a.pdf")
        assert parser.remote_job() == RemoteJob(
            server.billed[0], 4, resumed=False, service=f"llamaparse {'v2' if interface == 'http' else 'v1'}"
        )
        sent = server.jobs[server.billed[0]]
    kept = [page.replace("\r\n", "\n").rstrip("\n") + "\n\n" for page in (*pages[:2], pages[3])]
    starts = (0, len(kept[0]), len(kept[0]) + len(kept[1]), len(kept[0]) + len(kept[1]))
    assert (document.kind, document.text, document.page_starts) == ("pdf", "".join(kept), starts)
    assert document.title == "Report"
    found = [(b.kind, b.level, document.text[b.start : b.end].split("\n")[0]) for b in document.blocks]
    assert found == [
        ("heading", 1, "# Report"),
        ("paragraph", 0, "Intro é 𝄞."),
        ("heading", 2, "## Numbers"),
        ("table", 0, "| a | b |"),
        ("list", 0, "- one"),
        ("paragraph", 0, "Last page."),
    ]
    table = document.blocks[3]
    assert document.text[table.start : table.header_end] == "| a | b |\n|---|---|\n"
    assert document.warnings == ("page without text: 3 (of 4)",)
    assert wire.decode(wire.encode(document)) == document
    assert (sent.data, sent.file_name.endswith(".pdf"), "deep" in sent.file_name) == (PDF, True, False)


@both
def test_pages_that_fail_are_said_and_keep_their_numbers(interface):
    ends = "done" if interface == "http" else "PARTIAL_SUCCESS"
    plan = Plan(("One.\n", None, "Three.\n"), pending=0, ends=ends, images={3: ("img_p3_1.png",)})
    with serving(plan, interface=interface) as (_, parser):
        document = parser.parse(PDF, "a.pdf")
    assert (document.text, document.page_starts) == ("One.\n\nThree.\n\n", (0, 6, 6))
    reason = "the page can't be rendered" if interface == "http" else "the service says ERROR"
    pictures = () if interface == "http" else ("pictures are not kept: img_p3_1.png (page 3)",)
    assert document.warnings == (f"page 2 could not be read: {reason}", *pictures)


@pytest.mark.parametrize(
    ("pages", "code"),
    [((), "no_text"), (("", " \n", "NO_CONTENT_HERE\n"), "no_text"), ((None, ""), "parse_failed")],
)
def test_a_result_without_text_is_refused(pages, code):
    with serving(Plan(pages, pending=0)) as (server, parser):
        error = error_of(parser)
        assert (type(error), error.code) == (RejectedInput, code)
        assert error_of(parser).code == code
        assert len(server.billed) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("ab #|-`\n\r*1.>[]()<!é\ud800\0"), max_size=40), min_size=1, max_size=6))
def test_any_pages_give_a_sound_document(texts):
    """Every page's text stands where `page_starts` says, as our Markdown parser keeps it."""
    pages = [RemotePage(number, text) for number, text in enumerate(texts, start=1)]
    if not "".join(texts).replace("\0", " ").strip():
        with pytest.raises(RejectedInput, match="no text"):
            document_of(pages, "pdf", "a.pdf")
        return
    document = document_of(pages[::-1], "pdf", "a.pdf")
    assert wire.decode(wire.encode(document)) == document
    assert len(document.page_starts) == len(texts)
    ends = (*document.page_starts[1:], len(document.text))
    for text, start, end in zip(texts, document.page_starts, ends, strict=True):
        clean = text.replace("\0", " ").replace("\r\n", "\n").replace("\r", "\n").replace("\ud800", "\ufffd")
        expected = structure(clean)[0].rstrip("\n") + "\n\n" if clean.strip() else ""
        assert document.text[start:end] == expected


# What is asked.


def test_an_upload_of_the_second_generation():
    """Tables are asked for as Markdown, as the default is HTML, which our Markdown parser takes for opaque."""
    options = {"tier": "agentic", "version": "2026-07-24", "language": "de", "project_id": "p/1"}
    with serving(at_once, **options) as (server, parser):
        parser.parse(PDF, "a.pdf")
        assert json.loads(server.jobs[server.billed[0]].fields["configuration"]) == {
            "tier": "agentic",
            "version": "2026-07-24",
            "client_name": "lamina",
            "output_options": {"markdown": {"tables": {"output_tables_as_markdown": True}}},
            "processing_options": {"ocr_parameters": {"languages": ["de"]}},
        }
        job = f"/api/v2/parse/{server.billed[0]}"
    paths = [
        "/api/v2/parse/upload?project_id=p%2F1",
        f"{job}?project_id=p%2F1",
        f"{job}?expand=markdown&project_id=p%2F1",
    ]
    assert [asked.path for asked in server.asked] == paths


def test_an_upload_of_the_first_generation():
    options = {"tier": "agentic", "version": "2026-07-24", "language": "de", "project_id": "p1"}
    with serving(at_once, interface="package", **options) as (server, parser):
        parser.parse(PDF, "a.pdf")
        fields = server.jobs[server.billed[0]].fields
        assert {name: fields[name] for name in ("tier", "version", "language", "save_images")} == {
            "tier": "agentic", "version": "2026-07-24", "language": "de", "save_images": "false",
        }  # fmt: skip
        job = f"/api/parsing/job/{server.billed[0]}"
    paths = ["/api/parsing/upload?project_id=p1", job, f"{job}/result/json"]
    assert [asked.path for asked in server.asked] == paths


@both
def test_only_named_headers_go_out_whatever_the_environment_says(interface, monkeypatch):
    monkeypatch.setenv("LLAMA_CLOUD_API_KEY", "leaked")
    monkeypatch.setenv("LLAMA_CLOUD_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving(at_once, interface=interface) as (server, parser):
        parser.parse(PDF, "a.pdf")
    assert "leaked" not in str(server.asked)
    wanted = {"accept", "accept-encoding", "authorization", "host", "user-agent"}
    assert server.asked[1].headers.keys() == wanted
    assert server.asked[0].headers.keys() == wanted | {"content-type", "content-length"}
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("data", "name", "formats", "sent"),
    [
        (PDF, "a.pdf", {"pdf"}, ("pdf", ".pdf")),
        (PDF, "a.bin", {"pdf"}, ("pdf", ".pdf")),
        (PDF, "a.pdf", {"docx"}, None),
        (b"just text", "a.pdf", {"pdf"}, None),
        (b"# Title\n", "a.md", {"pdf"}, None),
        (b"# Title\n", "a.md", {"md"}, ("markdown", ".md")),
        (b"<!doctype html><p>x", "a.md", {"md"}, None),
        (b"<!doctype html><p>x", "a.md", {"html"}, ("html", ".html")),
        (PNG, "a.png", {"png"}, ("png", ".png")),
        (PNG, "a.pdf", {"pdf"}, None),
        (LOCKED, "a.docx", {"docx"}, None),
        (b"", "a.pdf", {"pdf"}, None),
    ],
)
def test_content_decides_what_is_sent_and_the_rest_stays_here(data, name, formats, sent):
    """What this machine can refuse at no cost never reaches the service."""
    with serving(at_once, formats=frozenset(formats)) as (server, parser):
        kind = ""
        with suppress(RejectedInput):  # what the parser of this machine says is its own tests' concern
            kind = parser.parse(data, name).kind
        found = [(kind, f".{job.file_name.rpartition('.')[2]}") for job in server.jobs.values()]
        assert found == ([sent] if sent else [])
        assert (parser.remote_job() is None) == (sent is None)
        assert sent or not server.asked


# One document, one bill.


CHILD = """
import sys
from pathlib import Path
from pipeline.adapters.clock_system import SystemClock
from pipeline.adapters.memo_sqlite import SqliteMemo
from pipeline.adapters.parser_inprocess import InProcessParser
from pipeline.adapters.parser_llamaparse import LlamaParser, LlamaParseSettings
from pipeline.adapters.parser_llamaparse_jobs import MemoJobStore

assert not {"httpx", "llama_parse"} & sys.modules.keys()
store = MemoJobStore(SqliteMemo(Path(sys.argv[2]), SystemClock()))
chosen = LlamaParseSettings(sys.argv[3], base_url=sys.argv[1], poll_first_s=0.01, poll_max_s=0.05)
LlamaParser(chosen, InProcessParser(), store, SystemClock()).parse(bytes.fromhex(sys.argv[4]), "a.pdf")
"""


def test_a_killed_process_leaves_its_job_to_the_next(tmp_path):
    """A crash between the upload and the result costs nothing: the id was stored before the first question."""
    with LlamaParseServer(Plan(pending=10**6)) as server:
        command = [sys.executable, "-c", CHILD, server.base_url, str(tmp_path / "memo"), KEY, PDF.hex()]
        with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}) as process:
            end = time.monotonic() + 60
            while "status" not in server.steps():
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        server.jobs[server.billed[0]].pending = 0
        memo = SqliteMemo(tmp_path / "memo", VirtualClock(WALL_NOW))
        parser = parser_of(server, memo)
        assert parser.parse(PDF, "renamed.pdf").page_starts == (0, 20)
        assert parser.remote_job() == RemoteJob(server.billed[0], 2, resumed=True, service="llamaparse v2")
        assert len(server.billed) == 1
        memo.close()


@both
def test_an_attempt_that_fails_after_the_upload_is_taken_up_by_another_instance(interface):
    memo = MemoryMemo()
    with serving(Plan(pending=0), interface=interface, memo=memo) as (server, first):
        server.fail("status", Fault(503), times=3)
        assert error_of(first).code == "provider_down"
        assert first.remote_job() == RemoteJob(server.billed[0], 0, resumed=False, service=first.remote_job().service)
        second = parser_of(server, memo, interface=interface)
        second.parse(PDF, "a.pdf")
        assert (second.remote_job().job_id, second.remote_job().resumed) == (server.billed[0], True)
        assert len(server.billed) == 1


def test_many_workers_at_once_are_billed_once():
    """Two instances over one store, eight threads, one document."""
    memo = MemoryMemo()
    with serving(Plan(pending=3), memo=memo) as (server, first):
        second = parser_of(server, memo)
        gate = threading.Barrier(8)

        def work(number):
            gate.wait()
            return (first, second)[number % 2].parse(PDF, "a.pdf")

        with ThreadPoolExecutor(8) as pool:
            documents = list(pool.map(work, range(8)))
        assert len(server.billed) == 1
        assert all(document == documents[0] for document in documents)


def test_a_job_depends_on_bytes_ending_and_options_but_not_on_the_name():
    memo = MemoryMemo()
    with serving(at_once, memo=memo) as (server, parser):
        parser.parse(PDF, "a.pdf")
        parser.parse(PDF, "folder/b.PDF")
        assert len(server.billed) == 1
        parser_of(server, memo, deadline_s=9.0).parse(PDF, "a.pdf")
        assert len(server.billed) == 1
        for changes in ({"tier": "agentic"}, {"version": "2026-07-08"}, {"language": "de"}, {"project_id": "p"}):
            parser_of(server, memo, **changes).parse(PDF, "a.pdf")
        parser.parse(PDF + b" ", "a.pdf")
        assert len(server.billed) == 6
        words = parser_of(server, memo, formats=frozenset(("md", "txt")))
        words.parse(b"# Title", "a.md")
        words.parse(b"# Title", "a.txt")
        assert len(server.billed) == 8


def test_a_yes_that_gets_lost_on_the_way_is_billed_twice_and_no_oftener():
    """The one hole that a client can't close: the service has the document and nobody has the job's id."""
    with serving(at_once) as (server, parser):
        server.fail("upload", Fault(reset="after"))
        assert error_of(parser).code == "provider_down"
        assert parser.remote_job() is None
        parser.parse(PDF, "a.pdf")
        parser.parse(PDF, "a.pdf")
        assert len(server.billed) == 2


def test_a_dead_workers_claim_ends_with_time():
    """Until then nobody uploads: the worker may be at it."""
    memo, clock = MemoryMemo(), VirtualClock(WALL_NOW)
    with serving(at_once, memo=memo, clock=clock, deadline_s=0.7) as (server, parser):
        book = JobBook(MemoJobStore(memo), clock, claim_s=70.0, pause=time.sleep)
        key = parser._key(PDF, "pdf")
        assert book.job_at(key, 0, time.monotonic() + 1) == ""
        assert error_of(parser).code == "parse_pending"
        assert server.billed == []
        clock.advance(71)
        parser_of(server, memo, clock=clock).parse(PDF, "a.pdf")
        assert len(server.billed) == 1


def test_places_are_found_among_any_number_of_lost_ones():
    memo = MemoryMemo()
    book = JobBook(MemoJobStore(memo), VirtualClock(WALL_NOW), claim_s=1.0, pause=time.sleep)
    for lost in range(40):
        assert book.open_place("k") == lost
        assert book.open_place("other") == 0
        book.lose("k", lost)


class BusyMemo(MemoryMemo):
    """Refuses to store a job's id so many times."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def put_many(self, items, *given, **named):
        if self.times and any(key.endswith(":job") for key in items):
            self.times -= 1
            raise Unavailable("memo_busy", "another process is writing")
        super().put_many(items, *given, **named)


def test_a_busy_store_is_asked_again_for_a_job_that_is_paid_for():
    with serving(at_once, memo=BusyMemo(2)) as (server, parser):
        parser.parse(PDF, "a.pdf")
        parser.parse(PDF, "a.pdf")
        assert len(server.billed) == 1


def test_a_store_that_forgets_costs_money_and_nothing_else():
    class Forgetful(MemoryMemo):
        def get_many(self, _keys):
            return {}

    with serving(at_once, memo=Forgetful()) as (server, parser):
        assert parser.parse(PDF, "a.pdf") == parser.parse(PDF, "a.pdf")
        assert len(server.billed) == 2


# Jobs that end badly.


@both
def test_a_job_that_expired_is_submitted_again_once(interface):
    with serving(Plan(pending=0), interface=interface) as (server, parser):
        parser.parse(PDF, "a.pdf")
        server.forget(server.billed[0])
        document = parser.parse(PDF, "a.pdf")
        assert (document.page_starts, len(server.billed)) == ((0, 20), 2)
        parser.parse(PDF, "a.pdf")
        assert (parser.remote_job().job_id, len(server.billed)) == (server.billed[1], 2)


@both
def test_a_job_that_is_too_new_to_be_known_is_not_submitted_again(interface):
    with serving(Plan(pending=0), interface=interface, poll_max_s=2.0) as (server, parser):
        server.fail("status", Fault(404, {"detail": "Job not found"}))
        parser.parse(PDF, "a.pdf")
        assert len(server.billed) == 1


def statuses(interface):
    return ("FAILED", "CANCELLED") if interface == "http" else ("ERROR", "CANCELED")


@both
def test_a_job_that_fails_for_no_fault_of_the_document_gets_one_more(interface):
    failed, cancelled = statuses(interface)
    with serving(Plan(pending=0), interface=interface) as (server, parser):
        server.plans = [Plan(pending=0, ends=failed, error_code="ERROR_DURING_PROCESSING")]
        assert parser.parse(PDF, "a.pdf").page_starts == (0, 20)
        assert len(server.billed) == 2
        server.plans = [
            Plan(pending=0, ends=cancelled),
            Plan(pending=0, ends=failed, error_code="EXPIRED", error_message=f"took too long {KEY}"),
        ]
        error = error_of(parser, PDF + b"2")
        assert (type(error), error.code, len(server.billed)) == (RejectedInput, "parse_failed", 4)
        assert "EXPIRED took too long [key]" in error.message
        assert server.billed[3] in error.message
        assert error.__cause__ is error.__context__ is None


@both
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("PDF_IS_PASSWORD_PROTECTED", "encrypted"),
        ("UNSUPPORTED_FILE_TYPE", "unsupported"),
        ("NO_DATA_FOUND_IN_FILE", "no_text"),
        ("PDF_IS_BROKEN", "parse_refused"),
    ],
)
def test_a_document_that_is_refused_for_good_is_not_sent_again(interface, words, code):
    with serving(interface=interface) as (server, parser):
        server.plan = Plan(pending=0, ends=statuses(interface)[0], error_code=words, error_message="It can't be.")
        for _ in range(2):
            error = error_of(parser)
            assert (type(error), error.code) == (RejectedInput, code)
            assert f"{words} It can't be." in error.message
        assert len(server.billed) == 1


def test_a_job_that_stops_for_want_of_credit_waits_for_a_person():
    with serving(Plan(pending=0, ends="FAILED", error_message="Organization exceeded its credits")) as (_, parser):
        error = error_of(parser)
        assert (type(error), error.code) == (Unavailable, "quota")


# Faults of the service and of the way there.

IN_7_S = formatdate(WALL_NOW + 7, usegmt=True)
UPLOADS = [
    (Fault(401, {"detail": "Invalid API Key"}), Unavailable, "unauthorized", None),
    (Fault(403, {"detail": "Forbidden"}), Unavailable, "unauthorized", None),
    (Fault(402, {"detail": "No credits"}), Unavailable, "quota", None),
    (Fault(429, {"detail": "slow down"}, {"Retry-After": "7"}), Unavailable, "rate_limited", 7000),
    (Fault(429, {"detail": "slow down"}, {"Retry-After": IN_7_S}), Unavailable, "rate_limited", 7000),
    (Fault(429, {"detail": "slow down"}), Unavailable, "rate_limited", None),
    (Fault(429, {"detail": "You exceeded your quota"}), Unavailable, "quota", None),
    (Fault(429, {"detail": "quota of this minute"}, {"Retry-After": "7"}), Unavailable, "rate_limited", 7000),
    (Fault(500, "oops"), Unavailable, "provider_down", None),
    (Fault(503, b"<html>", {"Retry-After": "2"}), Unavailable, "provider_down", 2000),
    (Fault(302, {}, {"Location": "http://127.0.0.1:9/"}), Unavailable, "bad_reply", None),
    (Fault(404, {"detail": "Not Found"}), Unavailable, "bad_reply", None),
    (Fault(200, b'{"id": '), Unavailable, "bad_reply", None),
    (Fault(200, b"[" * 100_000), Unavailable, "bad_reply", None),
    (Fault(200, {"id": "../../etc"}), Unavailable, "bad_reply", None),
    (Fault(200, {}), Unavailable, "bad_reply", None),
    (Fault(reset="before"), Unavailable, "provider_down", None),
    (Fault(400, {"detail": "Unsupported file type: .xyz"}), RejectedInput, "unsupported", None),
    (Fault(400, {"detail": "Unsupported tier"}), RejectedInput, "parse_refused", None),
    (Fault(413, b""), RejectedInput, "too_large", None),
    (Fault(422, {"detail": [{"msg": "bad"}]}), RejectedInput, "parse_refused", None),
]


@both
@pytest.mark.parametrize(("fault", "kind", "code", "wait_ms"), UPLOADS)
def test_an_upload_that_is_refused_holds_up_nobody(interface, fault, kind, code, wait_ms):
    """It's sent once, whatever the package would do, and the next attempt starts at once."""
    with serving(at_once, interface=interface) as (server, parser):
        server.fail("upload", fault)
        error = error_of(parser)
        assert (type(error), error.code, getattr(error, "retry_after_ms", None)) == (kind, code, wait_ms)
        assert (server.steps(), server.billed) == (["upload"], [])
        parser.parse(PDF, "a.pdf")
        assert len(server.billed) == 1


@pytest.mark.parametrize(
    "fault", [Fault(503), Fault(reset="before"), Fault(reset="after"), Fault(429, {}, {"Retry-After": "0.1"})]
)
@pytest.mark.parametrize("step", ["status", "result"])
def test_a_moment_of_absence_is_waited_out(step, fault):
    with serving(at_once) as (server, parser):
        server.fail(step, fault)
        assert parser.parse(PDF, "a.pdf").page_starts == (0, 20)
        assert len(server.billed) == 1


@both
@pytest.mark.parametrize(
    "result",
    [
        [],
        {},
        {"pages": 5, "markdown": {"pages": 5}},
        {"pages": [5], "markdown": {"pages": [5]}},
        {"pages": [{"page": 0, "md": ""}], "markdown": {"pages": [{"page_number": 0, "markdown": ""}]}},
        {"pages": [{"page": 10**9, "md": ""}], "markdown": {"pages": [{"page_number": 10**9, "markdown": ""}]}},
        {"pages": [{"page": 1, "md": {}}], "markdown": {"pages": [{"page_number": 1, "markdown": {}}]}},
        {"pages": [{"page": 1, "md": "a"}] * 2, "markdown": {"pages": [{"page_number": 1, "markdown": "a"}] * 2}},
    ],
)
def test_a_result_that_makes_no_sense_is_asked_for_again_later(interface, result):
    with serving(Plan(pending=0, result=result), interface=interface) as (server, parser):
        error = error_of(parser)
        if error.code == "no_text":  # the package takes an object without pages for a document without any
            assert (interface, result) == ("package", {})
        else:
            assert (type(error), error.code) == (Unavailable, "bad_reply")
        server.jobs[server.billed[0]].plan = Plan()
        parser.parse(PDF, "a.pdf")
        assert len(server.billed) == 1


def test_statuses_without_sense_and_without_end():
    memo = MemoryMemo()
    with serving(Plan(pending=0, ends="THROTTLED"), memo=memo, deadline_s=3.0) as (server, parser):
        assert error_of(parser).code == "parse_pending"
        server.fail("status", Fault(200, {"job": {"status": 5}}))
        assert error_of(parser_of(server, memo)).code == "bad_reply"


@both
def test_a_job_that_outlives_the_deadline_is_taken_up_later(interface):
    memo = MemoryMemo()
    with serving(at_once, interface=interface, memo=memo) as (server, first):
        first.parse(PDF + b"first", "a.pdf")  # the package's import is slow and none of this test's business
        server.plan = Plan(pending=10**6)
        parser = parser_of(server, memo, interface=interface, deadline_s=8.0)
        began = time.monotonic()
        error = error_of(parser)
        assert (type(error), error.code, error.retry_after_ms) == (Unavailable, "parse_pending", 50)
        assert server.billed[1] in error.message
        assert time.monotonic() - began < 60
        server.jobs[server.billed[1]].pending = 0
        parser_of(server, memo, interface=interface).parse(PDF, "a.pdf")
        assert len(server.billed) == 2


def test_a_server_that_sends_a_byte_now_and_then_meets_the_deadline():
    with serving(at_once, call_s=0.3) as (server, parser):
        server.fail("upload", Fault(drip_s=0.05))
        began = time.monotonic()
        assert error_of(parser).code == "provider_timeout"
        assert time.monotonic() - began < 20


def test_an_answer_without_end_is_cut():
    with serving(at_once) as (server, parser):
        parser.parse(PDF, "a.pdf")
        server.fail("result", Fault(200, b" " * (65 << 20)))
        error = error_of(parser)
        assert (error.code, "larger than 64 MB" in error.message) == ("bad_reply", True)


def test_nobody_there():
    with LlamaParseServer() as server:
        parser = parser_of(server)
    error = error_of(parser)
    assert (type(error), error.code) == (Unavailable, "provider_down")


def test_closing_ends_a_wait():
    slow = {"poll_first_s": 20.0, "poll_max_s": 20.0}
    with serving(Plan(pending=10**6), **slow) as (server, parser), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(error_of, parser)
        while "status" not in server.steps():
            time.sleep(0.01)
        began = time.monotonic()
        parser.close()
        assert waiting.result().code == "parser_closed"
        assert time.monotonic() - began < 5
        assert error_of(parser, PDF + b"2").code == "parser_closed"
        assert len(server.billed) == 1


# Secrets, identity and settings.


@both
@pytest.mark.parametrize(
    "fault", [Fault(400, {"detail": f"key {KEY} /{KEY}"}), Fault(500, KEY.encode()), Fault(200, KEY)]
)
def test_the_key_shows_nowhere(interface, fault, caplog):
    caplog.set_level(logging.DEBUG)
    with serving(at_once, interface=interface) as (server, parser):
        server.fail("upload", fault)
        error = error_of(parser)
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=False).format())
        parser.parse(PDF, "a.pdf")
        shown += caplog.text + repr(parser._settings) + repr(vars(error)) + parser.identity
    secret = KEY.split("-")[1]
    assert secret not in shown
    assert json.dumps(secret)[1:-1] not in shown


def test_the_identity_names_what_changes_results():
    with LlamaParseServer() as server:
        base = parser_of(server).identity
        assert base.startswith("llamaparse@1 v2 tier=cost_effective version=latest language= formats=docx,pdf,pptx ")
        assert base.endswith(InProcessParser().identity)
        changes = [
            {"interface": "package"}, {"tier": "agentic"}, {"version": "2026-07-08"}, {"language": "de"},
            {"formats": frozenset(("pdf",))},
        ]  # fmt: skip
        assert len({base, *(parser_of(server, **changed).identity for changed in changes)}) == 6
        same = [{"deadline_s": 5.0}, {"call_s": 5.0}, {"poll_max_s": 1.0}, {"project_id": "p"}]
        assert {parser_of(server, **changed).identity for changed in same} == {base}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"api_key": ""}, "bad_api_key"),
        ({"api_key": "two words\n"}, "bad_api_key"),
        ({"base_url": "ftp://host"}, "bad_base_url"),
        ({"base_url": "https://user:secret@host"}, "bad_base_url"),
        ({"base_url": "https://host:port"}, "bad_base_url"),
        ({"interface": "v3"}, "bad_settings"),
        ({"tier": "fast"}, "bad_settings"),
        ({"version": "a b"}, "bad_settings"),
        ({"formats": frozenset()}, "bad_settings"),
        ({"formats": frozenset((".pdf",))}, "bad_settings"),
        ({"poll_first_s": 0.0}, "bad_settings"),
    ],
)
def test_settings_that_can_not_be_used_are_refused_at_once(changes, code):
    wanted = LlamaParseSettings(**({"api_key": KEY} | changes))
    with pytest.raises(RejectedInput) as caught:
        LlamaParser(wanted, InProcessParser(), MemoJobStore(MemoryMemo()), VirtualClock())
    assert caught.value.code == code
    assert "secret" not in caught.value.message + caught.value.remedy


def test_without_the_package_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_parse", None)
    with serving(at_once, interface="package") as (server, parser):
        error = error_of(parser)
        assert (type(error), error.code) == (Unavailable, "parser_missing")
        assert "lamina[llamaparse]" in error.remedy
        assert server.asked == []
        assert parser.parse(b"# Title\n", "a.md").title == "Title"
