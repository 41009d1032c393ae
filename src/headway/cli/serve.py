"""serve."""

import os
from pathlib import Path
from typing import Any

import click

from headway.cli.options import FILE
from headway.cli.render import echo

TOKEN = "HEADWAY_TOKEN"


@click.command()
@click.argument("runs", nargs=-1, required=True, type=FILE, metavar="RUN [RUN]...")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address; one that others can reach needs a token."
)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65_535), help="0: any free port.")
@click.option("--token", help=f"Token that requests must have; also as ${TOKEN}. Without one, it is made if needed.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="Name by which the server is called, too.")
@click.option("--batch", default=32, show_default=True, type=click.IntRange(1, 1024), help="Texts written at a time.")
@click.option("--queue", default=64, show_default=True, type=click.IntRange(0, 1 << 20), help="Requests that may wait.")
@click.option(
    "--max-tokens", default=4096, show_default=True, type=click.IntRange(1, 1 << 20), help="Most tokens of a text."
)
@click.option(
    "--timeout", default=60.0, show_default=True, type=click.FloatRange(1, 86_400), help="Seconds, for each request."
)
@click.option("--log-texts", is_flag=True, help="Log what requests say, too.")
@click.option("--quiet", is_flag=True, help="Log nothing.")
def serve(
    runs: tuple[Path, ...], host: str, port: int, token: str | None, names: tuple[str, ...], **options: Any
) -> None:
    """Serve trained RUNs over HTTP, for the openai package, curl and any other client.

    \b
    Examples:
      headway serve runs/language-1                     http://127.0.0.1:8000 has a page to try it
      headway serve runs/classify-1 runs/translate-1 --port 9000
      headway serve runs/language-1 --host 0.0.0.0      for others, who need the token that is printed
    """
    from headway.server.limits import Limits
    from headway.server.logs import Log
    from headway.server.security import Access
    from headway.server.serving import serve as serve_runs

    access = Access.make(host, token or os.environ.get(TOKEN), names)
    limits = Limits(
        batch=options["batch"], queue=options["queue"], tokens=options["max_tokens"], seconds=options["timeout"]
    )

    def started(address: str) -> None:
        echo(f"serving {', '.join(str(run) for run in runs)} at {address} (Ctrl-C ends)")
        if access.token is not None and token is None and TOKEN not in os.environ:
            echo(f"token: {access.token} (for the page: {address}/#token={access.token})")

    serve_runs(runs, port, access, limits, Log(options["log_texts"], options["quiet"]), started)
    echo("stopped")
