"""Media types by file extension, for URLs that come without one."""

from __future__ import annotations

from urllib.parse import urlsplit

_BY_SUFFIX = {
    "gif": "image/gif",
    "heic": "image/heic",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "mov": "video/quicktime",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "webm": "video/webm",
    "csv": "text/csv",
    "html": "text/html",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "txt": "text/plain",
}


def media_type_of_url(url: str) -> str | None:
    """The media type for the extension of a URL's path; None if it is unknown."""
    try:
        path = urlsplit(url).path
    except ValueError:
        return None
    name = path.rpartition("/")[2]
    return _BY_SUFFIX.get(name.rpartition(".")[2].lower()) if "." in name else None
