"""An OIDC issuer on loopback for a test: real keys, real signatures, and keys that change while one looks."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

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
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
                self.answer(issuer.exchange(dict(parse_qsl(form))))

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/authorize":
                    self.send_response(303)
                    self.send_header("Location", issuer.authorize(dict(parse_qsl(parts.query))))
                    self.end_headers()
                    return
                issuer.asked[self.path] = issuer.asked.get(self.path, 0) + 1
                self.answer(issuer.answers.get(self.path))

            def answer(self, found: Any) -> None:
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
        self.answers["/.well-known/openid-configuration"] = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
        }
        # What was asked for with each code; everybody who comes is signed in at once.
        self.codes: dict[str, dict[str, str]] = {}
        self.add_rsa("first")

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser goes after the sign-in."""
        code = secrets.token_urlsafe()
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'session_state': 'x'})}"

    def exchange(self, form: dict[str, str]) -> dict[str, str] | None:
        """A code is good once, for the client, the address and the verifier that it was made for."""
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or any(form.get(name) != asked[name] for name in ("client_id", "redirect_uri")):
            return None
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if digest != asked["code_challenge"] or asked["code_challenge_method"] != "S256":
            return None
        return {"access_token": self.token(), "token_type": "Bearer"}

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
