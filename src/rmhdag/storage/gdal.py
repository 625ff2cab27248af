"""Options that block GDAL's network access, whatever a file refers to."""

from __future__ import annotations

# Nothing listens on port 0, and no file has this name.
NOWHERE = "http://127.0.0.1:0"
NO_FILE = "/vsicurl/none"

CLOSED = {
    # The one file that /vsicurl, /vsiaz, /vsis3 and their like may open.
    "CPL_VSIL_CURL_ALLOWED_FILENAME": NO_FILE,
    # All other HTTP traffic goes to a proxy that does not exist.
    "GDAL_HTTP_PROXY": NOWHERE,
    "GDAL_HTTPS_PROXY": NOWHERE,
    "GDAL_HTTP_MAX_RETRY": "0",
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_VRT_ENABLE_PYTHON": "NO",
    "PROJ_NETWORK": "OFF",
}
