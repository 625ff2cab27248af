"""Every fenced block is run, or has a name and a reason why it cannot be run here."""

from __future__ import annotations

from tests.documentation.fences import PAGES, ROOT, Fence, fences_of

DOCS = "tests/documentation"
PAGES_OF_ARCHITECTURE = f"{DOCS}/test_architecture_pages.py"

# Which test runs the blocks of a page that are in a language.
RUN = {
    ("README.md", "sh"): f"{DOCS}/test_readme.py",
    ("README.md", "yaml"): f"{DOCS}/test_readme.py",
    ("README.md", "python"): f"{DOCS}/test_readme.py",
    ("docs/external-services.md", "json"): "tests/cli/test_outside.py",
    ("docs/external-services.md", "sh"): "tests/cli/test_outside.py",
    ("docs/http-api.md", "sh"): f"{DOCS}/test_http_api.py",
    ("docs/partners.md", "sh"): f"{DOCS}/test_partners.py",
    ("docs/operating.md", "sh"): f"{DOCS}/test_operating.py",
    ("docs/python-client.md", "python"): "tests/client/test_documentation.py",
    ("docs/raster-pipeline.md", "sh"): f"{DOCS}/test_raster_pipeline.py",
    ("docs/raster-pipeline.md", "python"): f"{DOCS}/test_raster_pipeline.py",
    ("docs/raster-pipeline.md", "yaml"): f"{DOCS}/test_raster_pipeline.py",
    ("docs/reviewers.md", "sh"): f"{DOCS}/test_reviewers.py",
    ("docs/reviewers.md", "yaml"): f"{DOCS}/test_reviewers.py",
    ("docs/reviewers.md", "python"): f"{DOCS}/test_reviewers.py",
    ("docs/serving.md", "python"): "tests/serving/test_services.py",
    ("docs/settings.md", "toml"): f"{DOCS}/test_operating.py",
    ("docs/testing.md", "sh"): f"{DOCS}/test_testing.py",
    ("docs/testing.md", "python"): f"{DOCS}/test_testing.py",
    ("docs/testing.md", "yaml"): f"{DOCS}/test_testing.py",
    ("docs/unpublishing.md", "sh"): "tests/cli/test_outside.py",
    ("docs/vector-pipeline.md", "sh"): f"{DOCS}/test_vector_pipeline.py",
    ("docs/vector-pipeline.md", "python"): f"{DOCS}/test_vector_pipeline.py",
    ("docs/workflow-language.md", "yaml"): "tests/workflow/test_documentation.py",
    ("docs/workflow-language.md", "yaml nodes"): "tests/workflow/test_documentation.py",
    ("docs/architecture/authentication.md", "sh"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/authentication.md", "ini"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/callbacks.md", "json"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/doorbell.md", "python"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/embedded-postgres.md", "python"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/engine.md", "python"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/handlers.md", "python"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/payloads.md", "json"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/pooler.md", "sql"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/schema.md", "python"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/storage.md", "json"): PAGES_OF_ARCHITECTURE,
    ("docs/architecture/workflow-language.md", "python"): PAGES_OF_ARCHITECTURE,
}
# Pictures and what commands print; what is printed is compared by the test that runs the block before it.
SHOWN = {"mermaid", "text"}
# By page and first line. Commands and options of these are compared with the real ones by the tests that are named.
CANNOT_RUN = {
    ("README.md", "./run"): "installs packages; scripts/fresh-machine runs it on fresh machines",
    ("CONTRIBUTING.md", "make help"): "runs this test suite from inside itself",
    ("CONTRIBUTING.md", "scripts/fresh-machine"): "builds machines for most of an hour, as root",
    ("docs/deployment.md", "python3 -m venv /opt/rmhdag"): "installs a system account (test_deployment)",
    ("docs/deployment.md", "/opt/rmhdag/bin/rmhdag doctor"): "needs that installation (test_deployment)",
    ("docs/deployment.md", "cp deploy/systemd"): "needs systemd (test_deployment)",
    ("docs/deployment.md", "export POSTGRES_PASSWORD"): "needs containers (test_deployment)",
    ("docs/deployment.md", "rmhdag db roles"): "names a database server (tests/gateway, tests/cli/test_clients)",
    ("docs/deployment.md", "RMHDAG_GATEWAY_DATABASE_URL"): "names a database server (tests/gateway/test_failures)",
    ("docs/serving.md", "rmhdag serve"): "runs until it is stopped (tests/serving)",
    ("docs/serving.md", "rmhdag db roles --services"): "names a database server (tests/serving/test_start)",
    ("docs/architecture/access.md", "RMHDAG_DATABASE_URL=postgresql://rmhdag_owner@db"): (
        "names a database server (test_architecture_pages)"
    ),
}


def reason_not_to_run(fence: Fence) -> str | None:
    reasons = (
        reason
        for (page, first_line), reason in CANNOT_RUN.items()
        if fence.page == page and fence.first_line.startswith(first_line)
    )
    return next(reasons, None)


ALL = [fence for page in PAGES for fence in fences_of(page)]


def test_every_block_is_run_or_named() -> None:
    left = [fence for fence in ALL if fence.language not in SHOWN and (fence.page, fence.language) not in RUN]
    assert [fence.place for fence in left if reason_not_to_run(fence) is None] == []


def test_every_block_says_its_language() -> None:
    assert [fence.place for fence in ALL if not fence.language] == []


def test_what_is_named_exists() -> None:
    assert RUN.keys() <= {(fence.page, fence.language) for fence in ALL}
    named = {reason_not_to_run(fence) for fence in ALL}
    assert [reason for reason in CANNOT_RUN.values() if reason not in named] == []
    for (page, _), test in RUN.items():
        name = page.rpartition("/")[2].removesuffix(".md")
        assert name in (ROOT / test).read_text(encoding="utf-8"), f"{test} does not read {page}"


def test_a_block_that_nobody_runs_would_be_found() -> None:
    stranger = Fence("docs/limits.md", 1, "sh", "rmhdag up\n")
    assert (stranger.page, stranger.language) not in RUN
    assert reason_not_to_run(stranger) is None
