"""The instance metadata service: the meaning of replies, retries, and requests to a real server."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import FileIO
from typing import Any

import attrs
import pytest

import phases
from hostrouting.config.probe_rewrite import ImdsConfig
from hostrouting.errors import MetadataError
from hostrouting.host.metadata import SIZE_LIMIT, Answer, Reply, ask_for_ipv6, fetch
from hostrouting.kernel.netlink.channel import inside, open_namespace
from phases.testing import FakeClock
from tests.support.namespace import private_namespace
from tests.support.needs import require

V4: dict[str, Any] = {"ipv4": {"ipAddress": [{"privateIpAddress": "10.0.0.4"}]}, "macAddress": "000D3A000000"}
V6: dict[str, Any] = V4 | {"ipv6": {"ipAddress": [{"privateIpAddress": "fd00::4"}]}}
NONE_LISTED = V4 | {"ipv6": {"ipAddress": [{"privateIpAddress": ""}, {}]}}


def body(*interfaces: object) -> bytes:
    """The document of a host with these interfaces."""
    return json.dumps({"interface": interfaces}).encode()


YES, NO = Reply(200, body=body(V4, V6)), Reply(200, body=body(V4))
IS_YES = Answer(has_ipv6=True, reason="1 of 2 interfaces have an IPv6 address")
IS_NO = Answer(has_ipv6=False, reason="none of 1 interfaces has an IPv6 address")
LATE = MetadataError("http://10.0.0.1/", "gave no complete answer within 2 s")


@attrs.define
class Scripted:
    """A service that gives these answers in order, repeats the last one, and records the times of the requests."""

    clock: FakeClock
    answers: list[Reply | MetadataError]
    asked: list[float] = attrs.field(factory=list)
    with_what: tuple[str, float] = ("", 0.0)

    def __call__(self, url: str, timeout: float) -> Reply:
        """The next answer."""
        self.with_what = url, timeout
        self.asked.append(self.clock.now())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, MetadataError):
            raise answer
        return answer


def asked(*answers: Reply | MetadataError, retries: int = 5) -> tuple[Answer, list[float]]:
    """The result for these answers, and the times of the requests."""
    clock = FakeClock()
    service = Scripted(clock, list(answers))
    return ask_for_ipv6(phases.Context(clock=clock, observers=[]), service, ImdsConfig(retries=retries)), service.asked


class TestWhatADocumentSays:
    """A missing `ipv6` key means no IPv6; an unreadable document means unknown, never "no IPv6"."""

    @pytest.mark.parametrize("interface", [V4, NONE_LISTED, V4 | {"ipv6": {}}], ids=["no key", "blank", "empty"])
    def test_no(self, interface: object) -> None:
        """A host whose interfaces list no IPv6 address has none."""
        assert asked(Reply(200, body=body(interface))) == (IS_NO, [0.0])

    def test_yes(self) -> None:
        """One interface with an IPv6 address is enough."""
        assert asked(YES) == (IS_YES, [0.0])
        assert asked(Reply(200, body=body({"ipv6": "?"}, V6)))[0].has_ipv6

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (b"", "0 bytes that are not JSON"),
            (b"<html>", "6 bytes that are not JSON"),
            (body(V4)[:-2], f"{len(body(V4)) - 2} bytes that are not JSON"),
            (b"\xff\xfe", "2 bytes that are not JSON"),
            (b"[" * 100_000, "100000 bytes that are not JSON"),
            (b"[]", "JSON that does not list network interfaces"),
            (b"{}", "JSON that does not list network interfaces"),
            (b'{"network": 5}', "JSON that does not list network interfaces"),
            (body(), "JSON that does not list network interfaces"),
            (b'{"interface": {"ipv4": {}}}', "JSON that does not list network interfaces"),
            (body(V4, 5), "JSON whose list of network interfaces cannot be read"),
            (body(V4 | {"ipv6": None}), "JSON whose list of network interfaces cannot be read"),
            (body(V4 | {"ipv6": {"ipAddress": "fd00::4"}}), "JSON whose list of network interfaces cannot be read"),
        ],
        ids=lambda value: ascii(value)[-24:],
    )
    def test_unknown(self, text: bytes, reason: str) -> None:
        """After any other document the answer is unknown, and the request is not repeated."""
        assert asked(Reply(200, body=text)) == (Answer(None, f"answered with {reason}"), [0.0])


class TestWhenItIsAskedAgain:
    """Retries are bounded, and only temporary failures are retried."""

    @pytest.mark.parametrize("status", [201, 204, 400, 401, 403, 404, 405])
    def test_not_after_what_stays(self, status: int) -> None:
        """A request that the service refuses is not repeated."""
        assert asked(Reply(status), YES) == (Answer(None, f"answered with status {status}"), [0.0])

    @pytest.mark.parametrize(
        ("location", "shown"), [("http://10.0.0.1/\x1b", r'"http://10.0.0.1/\u001b"'), (None, "null")]
    )
    def test_a_redirect(self, location: str | None, shown: str) -> None:
        """A redirect is not followed, and its target is printed with control characters escaped."""
        headers = () if location is None else (("location", location),)
        said = f"answered with status 302, a redirect to {shown}, which is not followed"
        assert asked(Reply(302, headers), YES) == (Answer(None, said), [0.0])

    @pytest.mark.parametrize("first", [LATE, *map(Reply, (408, 410, 429, 500, 503))], ids=str)
    def test_after_what_may_pass(self, first: Reply | MetadataError) -> None:
        """After a timeout, or if the server is busy or has failed, the request is repeated half a second later."""
        assert asked(first, YES) == (IS_YES, [0.0, 0.5])

    def test_the_pauses_grow_up_to_a_bound(self) -> None:
        """Each pause is twice the one before, up to four seconds; after the last retry the answer is unknown."""
        said = "gave no complete answer within 2 s (asked 7 times)"
        assert asked(LATE, retries=6) == (Answer(None, said), [0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5])

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            ("7", 7.0),
            (" 7 ", 7.0),
            ("0", 0.5),
            ("86400", 30.0),
            ("9" * 5000, 30.0),
            ("Thu, 01 Jan 2026 00:00:09 GMT", 0.5),
            ("Thu, 01 Jan 2026 00:00:09 -0000", 0.5),
            ("soon", 0.5),
            (f"Thu, 01 Jan 2026 00:00:00 +{'9' * 20}", 0.5),
            (",", 0.5),
            ("", 0.5),
            ("\u0667", 0.5),
        ],
        ids=lambda value: ascii(value)[:40],
    )
    @pytest.mark.parametrize("status", [429, 503])
    def test_retry_after(self, status: int, value: str, seconds: float) -> None:
        """The service may set the wait, in seconds: at most half a minute, and at least our pause."""
        assert asked(Reply(status, (("retry-after", value),)), YES) == (IS_YES, [0.0, seconds])

    def test_told_to_stop(self) -> None:
        """A run whose time is up does not wait for the service."""
        clock = FakeClock()
        service = Scripted(clock, [LATE])
        with pytest.raises(phases.Cancelled):
            ask_for_ipv6(phases.Context(clock=clock, observers=[], deadline=1), service, ImdsConfig())
        assert service.asked == [0.0, 0.5]

    def test_what_is_asked(self) -> None:
        """The request uses the configured URL and the configured timeout."""
        service = Scripted(FakeClock(), [NO])
        ask_for_ipv6(phases.Context(observers=[]), service, ImdsConfig("http://10.0.0.1/x", 0.25))
        assert service.with_what == ("http://10.0.0.1/x", 0.25)


def test_the_error_says_what_to_do() -> None:
    """The error names the URL, the reason and the remedies."""
    assert str(LATE).startswith(
        "the instance metadata service at http://10.0.0.1/ gave no complete answer within 2 s; "
    )
    assert "onUnknown" in str(LATE)


@pytest.mark.parametrize(
    "url", ["https://10.0.0.1/", "http://localhost/", "http:///x", "http://10.0.0.1:x/", "ftp://10.0.0.1/", "x"]
)
def test_what_is_not_asked_at_all(url: str) -> None:
    """Anything other than http to an address is an immediate error: no name is resolved, and nothing is sent."""
    with pytest.raises(MetadataError) as caught:
        fetch(url, 1)
    assert not caught.value.can_retry


# A real server, in a namespace where nothing else is

LIMIT = 0.1


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[FileIO]:
    """A namespace with the service's address on its loopback device, and a device that drops all packets."""
    require("root")
    with private_namespace() as namespace:
        namespace.batch(
            [
                "link set lo up",
                "address add 169.254.169.254/32 dev lo",
                "address add fd00::254/128 dev lo nodad",
                "link add hole type veth peer name bottom",
                "link set hole up",
                "link set bottom up",
                "address add 192.0.2.1/24 dev hole",
                "neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev hole",
            ]
        )
        with open_namespace(namespace.path) as held:
            yield held


@contextmanager
def serving(elsewhere: FileIO, respond: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[Any]]]:
    """The URL of a server with this answer, and the requests that it received."""
    requests: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            requests.append((self.path, dict(self.headers)))
            self.close_connection = True
            with suppress(OSError):  # the client may have gone
                respond(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = inside(elsewhere, lambda: HTTPServer(("169.254.169.254", 0), Handler))
    thread = threading.Thread(target=server.serve_forever, args=(0.005,))
    thread.start()
    try:
        yield f"http://169.254.169.254:{server.server_port}/metadata/instance/network?api-version=1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer_of(elsewhere: FileIO, url: str, timeout: float = LIMIT, retries: int = 1) -> tuple[Answer, float]:
    """The answer from the URL, and the seconds of pauses, on a fake clock."""
    clock = FakeClock()

    def there(url: str, timeout: float) -> Reply:
        return inside(elsewhere, lambda: fetch(url, timeout))

    ctx = phases.Context(clock=clock, observers=[])
    return ask_for_ipv6(ctx, there, ImdsConfig(url, timeout, retries)), clock.now()


def reply(status: int, text: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Send this reply, with the length of the text unless another is given."""

    def respond(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        for name, value in ({"Content_Length": str(len(text))} | headers).items():
            to.send_header(name.replace("_", "-"), value)
        to.end_headers()
        to.wfile.write(text)

    return respond


def drip(to: BaseHTTPRequestHandler) -> None:
    """Send a byte every few milliseconds, for ever."""
    to.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        to.wfile.write(b"a")
        time.sleep(LIMIT / 10)


def say_nothing(to: BaseHTTPRequestHandler) -> None:
    """Wait until the client closes the connection."""
    to.rfile.read(1)


def send(text: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """Send this and close the connection."""

    def respond(to: BaseHTTPRequestHandler) -> None:
        to.wfile.write(text)

    return respond


@pytest.mark.linux
class TestAgainstARealServer:
    """Every kind of answer, over a real socket."""

    @pytest.mark.parametrize(("document", "answer"), [(YES.body, IS_YES), (NO.body, IS_NO)], ids=["with", "without"])
    def test_an_answer(
        self, elsewhere: FileIO, document: bytes, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The request has the required header, and does not use a proxy from the environment."""
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9/")
        with serving(elsewhere, reply(200, document)) as (url, requests):
            assert answer_of(elsewhere, url, 5) == (answer, 0)
        [(path, headers)] = requests
        assert path == "/metadata/instance/network?api-version=1"
        assert headers["Metadata"] == "true"
        assert headers["Host"] == url.split("/")[2]

    @pytest.mark.parametrize("respond", [drip, say_nothing], ids=["dripping", "silent"])
    def test_slow(self, elsewhere: FileIO, respond: Callable[[BaseHTTPRequestHandler], None]) -> None:
        """The timeout is for the whole answer: bytes that arrive one by one do not extend it."""
        before = time.monotonic()
        with serving(elsewhere, respond) as (url, requests):
            assert answer_of(elsewhere, url) == (
                Answer(None, "gave no complete answer within 0.1 s (asked 2 times)"),
                0.5,
            )
        assert len(requests) <= 2  # on a busy machine, the server may not have seen one before it ends
        assert time.monotonic() - before < 300 * LIMIT

    @pytest.mark.parametrize(
        ("respond", "said"),
        [
            (reply(200, YES.body, Content_Length=str(len(YES.body) + 7)), "ended its answer 7 bytes too early"),
            (reply(200, b"", Content_Length="7"), "ended its answer 7 bytes too early"),
            (
                send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
                "closed the connection, or does not speak HTTP (IncompleteRead)",
            ),
            (send(b""), "cannot be queried: Remote end closed connection without response"),
            (send(b"SSH-2.0-OpenSSH\r\n"), "closed the connection, or does not speak HTTP (BadStatusLine)"),
        ],
        ids=["short", "empty", "chunks", "nothing", "ssh"],
    )
    def test_cut_short(self, elsewhere: FileIO, respond: Callable[[BaseHTTPRequestHandler], None], said: str) -> None:
        """After an incomplete answer the result is unknown, whatever its first part says, and the request is repeated."""
        with serving(elsewhere, respond) as (url, _):
            assert answer_of(elsewhere, url, 5) == (Answer(None, f"{said} (asked 2 times)"), 0.5)

    @pytest.mark.parametrize(
        ("respond", "said", "pause"),
        [
            (reply(500, NO.body), "answered with status 500 (asked 2 times)", 0.5),
            (reply(429, b"", Retry_After="3"), "answered with status 429 (asked 2 times)", 3),
            (
                reply(302, b"", Location="http://127.0.0.1/"),
                'answered with status 302, a redirect to "http://127.0.0.1/", which is not followed',
                0,
            ),
            (reply(200, b" " * (SIZE_LIMIT + 1)), "answered with more than 1,048,576 bytes", 0),
        ],
        ids=["500", "429", "redirect", "large"],
    )
    def test_no_answer(
        self, elsewhere: FileIO, respond: Callable[[BaseHTTPRequestHandler], None], said: str, pause: float
    ) -> None:
        """An error, a redirect and a document that is too large are unknown; only temporary failures are retried."""
        with serving(elsewhere, respond) as (url, requests):
            assert answer_of(elsewhere, url, 5) == (Answer(None, said), pause)
        assert len(requests) == 1 + bool(pause)

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("http://169.254.169.254:1/", "cannot be queried: Connection refused"),
            ("http://[fd00::254]:1/", "cannot be queried: Connection refused"),
            ("http://198.51.100.1/", "cannot be queried: Network is unreachable"),
            ("http://192.0.2.9/", "gave no complete answer within 0.1 s"),
        ],
        ids=["nobody listens", "IPv6", "no route", "lost"],
    )
    def test_nobody_there(self, elsewhere: FileIO, url: str, said: str) -> None:
        """If the address does not answer, the result is unknown with the reason, and the request is repeated."""
        assert answer_of(elsewhere, url) == (Answer(None, f"{said} (asked 2 times)"), 0.5)
