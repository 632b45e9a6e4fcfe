"""The group `cluster`: a Ray cluster that searches an index in shards."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.cli import options, settings
from mergewise.cli.output import say, say_aside, say_json, say_warning
from mergewise.extend import CACHE_SIZE

if TYPE_CHECKING:
    from mergewise.cluster import Control

app = typer.Typer(
    name="cluster",
    help="Search an index in shards on a Ray cluster (extra ray).",
    no_args_is_help=True,
    cls=options.PlainGroup,
)

AddressOption = Annotated[str, typer.Option("--ray", metavar="ADDRESS", help="Ray cluster: local, auto or HOST:PORT.")]
START_SECONDS = 600.0


def _control(index_dir: Path, ray: str) -> Control:
    from mergewise.cluster import Control

    return Control(index_dir, ray)


@app.command("start", cls=options.NamingCommand)
@options.with_options
def start(
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    ray: AddressOption = "local",
    replicas: Annotated[int, typer.Option(min=1, max=16, help="Nodes that hold each shard.")] = 2,
    auth: Annotated[
        bool, typer.Option("--auth/--no-auth", help="Refuse a cluster that needs no token (RAY_AUTH_MODE).")
    ] = True,
    cache_size: Annotated[str, settings.Setting("Size of a bucket's copies on each node, such as 20GB")] = CACHE_SIZE,
    cache: settings.CacheSetting = None,
) -> None:
    """Search an index on all nodes of a cluster. Run it again to change the options, and to use drained nodes again.

    With `--ray local`, this command is the cluster, until Ctrl-C.
    """
    say_aside("starting", None)
    control = _control(index_dir, ray)
    control.start(replicas, (str(cache.absolute()) if cache else None, cache_size), needs_token=auth)
    state = control.wait(lambda state: state["ready"], START_SECONDS)
    say(f"{len(state['shards'])} shards on {len(state['nodes'])} nodes: {control.address}")
    if len(state["nodes"]) < replicas:
        say_warning(f"each shard is on {len(state['nodes'])} nodes, because the cluster has no more")
    # Ray sends its token only if told
    mode = "RAY_AUTH_MODE=token " if os.environ.get("RAY_AUTH_MODE") == "token" else ""
    say_aside(f"ask: {mode}MERGEWISE_CLUSTER={control.address} mergewise ask QUESTION --index {index_dir}", None)
    if ray == "local":
        say_aside("press Ctrl-C to stop", None)
        with suppress(KeyboardInterrupt):
            Event().wait()
        control.leave()


@app.command("status", cls=options.NamingCommand)
def status(
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    ray: AddressOption = "auto",
    as_json: options.JsonOption = False,
) -> None:
    """Show the nodes with their shards, memory and times of answers, and the snapshot that is searched."""
    state = _control(index_dir, ray).state()
    if as_json:
        say_json(state)
        return
    ready = "ready" if state["ready"] else "shards are opening"
    say(f"snapshot {state['snapshot']}, {len(state['shards'])} shards, {state['replicas']} replicas: {ready}")
    for node in state["nodes"]:
        own = ", ".join(str(at) for at, names in enumerate(state["shards"]) if node["node"] in names) or "none"
        facts = [node["node"], node["address"], f"shards {own}"]
        if "pid" in node:
            facts += [f"{node['memory'] / 1e6:,.0f} MB", f"p50 {node['p50']:.0f} ms, p95 {node['p95']:.0f} ms"]
            if room := node["cache_bytes"]:
                small = ", too small: add nodes, or start with a larger cache-size" if node["copied"] > room else ""
                facts.append(f"cache {node['copied'] / 1e6:,.1f} of {room / 1e6:,.1f} MB{small}")
        else:
            facts.append("no searcher")
        say("  ".join([*facts, *(["drained"] if node["drained"] else []), node.get("error", "")]).rstrip())
    if state["error"]:
        say_warning(state["error"])


@app.command("drain", cls=options.NamingCommand)
def drain(
    node: Annotated[str, typer.Argument(help="Id of the node (see `status`).")],
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    ray: AddressOption = "auto",
) -> None:
    """Move the shards of a node to others, so that the node can be removed."""
    control = _control(index_dir, ray)
    control.drain(node)
    control.wait(lambda state: not any(node[:16] in names for names in state["shards"]), START_SECONDS)
    say(f"{node} has no shards")


@app.command("stop", cls=options.NamingCommand)
def stop(index_dir: options.IndexOption = options.DEFAULT_INDEX, ray: AddressOption = "auto") -> None:
    """Stop searching an index. The index itself stays."""
    _control(index_dir, ray).stop()
