"""The limits: no gateway at all, and nginx, which passes on the bytes as they are."""

from __future__ import annotations

import resource

from bench.gateway.cases import ROUTES, UNTRANSLATED
from bench.gateway.peers.record import Launch, Peer, Place, Program

_NGINX = """\
daemon off;
worker_processes 1;
worker_rlimit_nofile {files};
pid nginx.pid;
error_log error.log;
events {{ worker_connections {files}; }}
http {{
  access_log off;
  client_body_buffer_size 256k;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 16384; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    keepalive_requests 1000000000;
    location = /health {{ return 200; }}
    location / {{
      proxy_pass http://model;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""
_MOST_FILES = 20_200
"""Two for each of the streams that are held at most; every one that is possible takes memory from the start."""


def _nginx(place: Place) -> Launch:
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MOST_FILES)
    config = _NGINX.format(port=place.port, upstream=place.upstream, files=files)
    command = ("nginx", "-p", f"{place.folder}/", "-e", "error.log", "-c", "nginx.conf")
    return Launch(command, files={"nginx.conf": config})


DIRECT = Peer(
    name="direct",
    title="direct",
    routes=ROUTES,
    launch=None,
    install=None,
    ready="/",
    health="/",
    translates=False,
    settings="no gateway: the load generator asks the upstream",
)

NGINX = Peer(
    name="nginx",
    title="nginx, untranslated",
    routes=tuple(dict.fromkeys((*ROUTES, *UNTRANSLATED))),
    launch=_nginx,
    install=Program("nginx", ("nginx", "-v")),
    ready="/health",
    health="/health",
    translates=False,
    settings="one worker, no access log, no buffering of answers, kept upstream connections; in the upstream's dialect",
)
