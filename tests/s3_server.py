"""The peer object store of the tests: moto's S3 on loopback, with conditional puts that are one step, as they are in S3."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tests.ports import LOOPBACK


class OneAtATime:
    """Lets requests with a condition pass one after the other: moto checks first, then writes, on a thread for each request."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application
        self.lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" not in environ and "HTTP_IF_MATCH" not in environ:
            return self.application(environ, start_response)
        # Whole before the lock is taken: a client that was stopped must not hold up all others.
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        with self.lock:
            return list(self.application(environ, start_response))


class S3Server:
    """A server on a port of its own, in threads of this process."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        application = OneAtATime(DomainDispatcherApplication(create_backend_app))
        self.server = make_server(LOOPBACK, 0, application, threaded=True, request_handler=MotoRequestHandler)
        self.port = int(self.server.server_address[1])
        self.endpoint = f"http://{LOOPBACK}:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, name="moto", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
