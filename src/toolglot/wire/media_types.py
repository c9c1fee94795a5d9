"""Media types: normalized, by file extension, and by the first bytes of the data."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from toolglot.ir import MediaKind, Source, replace

_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "image/apng": "image/png",
    "image/x-ms-bmp": "image/bmp",
    "image/x-webp": "image/webp",
    "application/x-pdf": "application/pdf",
    "audio/mp3": "audio/mpeg",
    "audio/x-mp3": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "text/x-markdown": "text/markdown",
}
"""Names that are not or no longer registered -> the registered name, the only one that vendors accept."""

_BY_SUFFIX = {
    "bmp": "image/bmp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webp": "image/webp",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "mov": "video/quicktime",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "webm": "video/webm",
    "c": "text/x-c",
    "css": "text/css",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "epub": "application/epub+zip",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "md": "text/markdown",
    "odt": "application/vnd.oasis.opendocument.text",
    "pdf": "application/pdf",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "py": "text/x-python",
    "rtf": "application/rtf",
    "sh": "text/x-sh",
    "tex": "text/x-tex",
    "ts": "text/x-typescript",
    "txt": "text/plain",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "text/xml",
    "yaml": "text/yaml",
    "zip": "application/zip",
}

_SUFFIXES = {media_type: suffix for suffix, media_type in reversed(_BY_SUFFIX.items())} | {
    "application/javascript": "js",
    "application/x-python": "py",
    "application/x-python-code": "py",
    "application/xml": "xml",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/rtf": "rtf",
    "text/x-script.python": "py",
}

_MAGIC = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "Qk0": "image/bmp",
    "JVBERi0": "application/pdf",
}
"""The start of the base64 text of a file -> its media type."""
_RIFF, _WEBP = "UklGR", "XRUJQ"
"""A RIFF container, and the position-independent end of the name of a WebP image in it (bytes 8 to 11)."""

QUOTED_STRING = r'"(?:[^"\\]|\\.|(?!))*+"'
"""The pattern of a quoted value of a parameter (RFC 2045, section 5.1)."""
_PARAMETER = re.compile(rf";([^;=]*+)=((?:[^;\"]|{QUOTED_STRING}|\"|(?!))*+)")

_KINDS: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}


def normalize_media_type(media_type: str) -> str:
    """Return the registered name in lower case, without parameters."""
    name = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(name, name)


def charset_of(media_type: str) -> str | None:
    """Return the parameter `charset` in lower case."""
    for name, value in _PARAMETER.findall(media_type):
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower() or None
    return None


def kind_of_media_type(media_type: str | None) -> MediaKind:
    """Return the kind of media of this type: a document, unless the type says otherwise."""
    return _KINDS.get((media_type or "").partition("/")[0].strip().lower(), "document")


def detect_media_type(data: str) -> str | None:
    """Return the media type that the first characters of base64 text show; None if they show none."""
    if data.startswith(_RIFF):
        return "image/webp" if data[11:16] == _WEBP else None
    return next((media_type for magic, media_type in _MAGIC.items() if data.startswith(magic)), None)


def normalize_source(source: Source, kind: MediaKind, name: str | None = None) -> Source:
    """Return a source with the media type that its data shows, otherwise the normalized declared type, otherwise the
    type for its name. Images and PDF files are recognized. The declared type of a file that a vendor stores stays."""
    if source.kind in ("file", "text"):
        return source
    declared = source.media_type
    found = detect_media_type(source.data) if source.kind == "base64" else None
    if found is None or kind_of_media_type(found) != kind:
        found = None if declared is None else normalize_media_type(declared)
    if not found and name is not None:
        found = media_type_of_name(name)
    return source if not found or found == declared else replace(source, media_type=found)


def media_type_of_name(name: str) -> str | None:
    """Return the media type for the extension of a file name; None if it is unknown."""
    return _BY_SUFFIX.get(name.rpartition(".")[2].lower()) if "." in name else None


def media_type_of_url(url: str) -> str | None:
    """Return the media type for the extension of a URL's path; None if it is unknown."""
    try:
        path = urlsplit(url).path
    except ValueError:
        return None
    return media_type_of_name(path.rpartition("/")[2])


def file_suffix(media_type: str) -> str:
    """Return the usual file extension of a media type. If the type is unknown, this is the last part of its name: `zip`
    for `x-zip`."""
    name = normalize_media_type(media_type)
    if (suffix := _SUFFIXES.get(name)) is not None:
        return suffix
    rest = name.partition("/")[2].rpartition("+")[2].removeprefix("x-")
    return rest if rest.isalnum() else "txt" if name.startswith("text/") else "bin"
