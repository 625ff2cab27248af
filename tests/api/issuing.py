"""An OIDC issuer on loopback for a test: real keys, real signatures, and keys that change while one looks."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "api://rmhdag"


class Issuer:
    """`answers` may be changed while it runs: what a path is answered with. `asked` counts by path."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.private: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked[self.path] = issuer.asked.get(self.path, 0) + 1
                found = issuer.answers.get(self.path)
                body = json.dumps(found).encode()
                self.send_response(200 if found is not None else 500)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.answers["/.well-known/openid-configuration"] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.add_rsa("first")

    def add_rsa(self, key_id: str, bits: int = 2048) -> None:
        self.private[key_id] = rsa.generate_private_key(public_exponent=65537, key_size=bits)
        self.publish()

    def add_ec(self, key_id: str) -> None:
        self.private[key_id] = ec.generate_private_key(ec.SECP256R1())
        self.publish()

    def publish(self) -> None:
        self.answers["/keys"] = {"keys": [self.public(key_id) for key_id in self.private]}

    def public(self, key_id: str) -> dict[str, Any]:
        key = self.private[key_id].public_key()
        kind = RSAAlgorithm if isinstance(key, rsa.RSAPublicKey) else ECAlgorithm
        shown: dict[str, Any] = kind.to_jwk(key, as_dict=True)
        return {**shown, "kid": key_id, "use": "sig"}

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        given = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "iat": now, "nbf": now, "exp": now + 300}
        return {name: value for name, value in {**given, "roles": ["Reader"], **changed}.items() if value is not None}

    def token(self, key_id: str = "first", algorithm: str = "RS256", **changed: Any) -> str:
        """Signed as it is, whatever it says."""
        body = json.dumps(self.claims(**changed)).encode()
        return jwt.PyJWS().encode(body, self.private[key_id], algorithm, {"kid": key_id})

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
