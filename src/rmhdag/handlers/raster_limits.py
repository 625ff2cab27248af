"""Limits for rasters from outside, and for GDAL in a process that opens one.

Does not import GDAL, so that a worker can pass the limits on to its children: GDAL reads most of them once, at start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from rmhdag.storage.gdal import CLOSED

MEGABYTE = 1024 * 1024
PREFIX = "RMHDAG_"

# What our own handlers read and write: files, memory, warped views, pictures and vectors in JSON.
NEEDED_DRIVERS = frozenset("GTiff COG VRT MEM PNG JPEG WEBP GeoJSON Memory".split())
# All other drivers of the known builds. They are never used, because we name the driver; this is a second barrier.
REFUSED_DRIVERS = [
    "ESRI Shapefile",
    *(
        "AAIGrid ACE2 ADRG AIG AVCBin AVCE00 AirSAR BAG BIGGIF BLX BMP BSB BT BYN CALS CEOS COASP COSAR CPG CTG "
        "CTable2 DAAS DERIVED DIMAP DIPEx DOQ1 DOQ2 DTED ECRGTOC EEDA EEDAI EHdr EIR ELAS ENVI ERS ESAT ESRIC "
        "ESRIJSON FAST FIT GFF GIF GNMDatabase GNMFile GPKG GRASSASCIIGrid GRIB GS7BG GSAG GSBG GSC GTI GTX GXF "
        "GenBin GeoJSONSeq HDF5 HDF5Image HF2 HFA HTTP ILWIS IRIS ISCE ISG ISIS2 ISIS3 JAXAPALSAR JDEM JP2OpenJPEG "
        "KMLSUPEROVERLAY KRO L1B LAN LCP LOSLAS Leveller MAP MBTiles MFF MFF2 MRF MSGN MVT NDF NGSGEOID NITF NOAA_B "
        "NSIDCbin NTv2 NWT_GRC NWT_GRD OGCAPI OSM OZI PAux PCIDSK PCRaster PDF PDS PDS4 PLMOSAIC PLSCENES PNM PRF R "
        "RIK RMF ROI_PAC RPFTOC RRASTER RS2 RST Rasterlite S102 S104 S111 SAFE SAGA SAR_CEOS SDTS SENTINEL2 SGI "
        "SIGDEM SNAP_TIFF SNODAS SQLite SRP SRTMHGT STACIT STACTA TGA TIL TSX Terragen TopoJSON USGSDEM VICAR WCS WMS "
        "WMTS XPM XYZ ZMap Zarr netCDF"
    ).split(),
]


def is_news(record: logging.LogRecord) -> bool:
    """False for GDAL's message about each listed driver that its build does not have."""
    return not (record.name.startswith("rasterio") and "to unload from GDAL_SKIP" in record.getMessage())


@dataclass(frozen=True, slots=True)
class RasterLimits:
    """Each field is a setting of the same name; children get them by environment variables."""

    raster_max_file_mb: int = 128 * 1024
    raster_max_pixels: int = 20_000_000_000
    raster_max_bands: int = 1_000
    raster_max_block_mb: int = 256
    raster_max_decoded_mb: int = 1024 * 1024
    raster_max_ratio: int = 2_000
    gdal_cache_mb: int = 128
    gdal_threads: int = 1
    # Additional drivers for users' handlers; our own handlers do not use them.
    gdal_drivers: str = ""

    @classmethod
    def from_variables(cls, variables: Mapping[str, str] | None = None) -> RasterLimits:
        """For child processes, which get the limits from their parent; missing ones have their defaults."""
        variables = os.environ if variables is None else variables
        texts = {field.name: variables.get(PREFIX + field.name.upper()) for field in fields(cls)}
        drivers = texts.pop("gdal_drivers")
        return cls(**{name: int(text) for name, text in texts.items() if text}, gdal_drivers=drivers or "")

    def as_variables(self) -> dict[str, str]:
        ours = {PREFIX + field.name.upper(): str(getattr(self, field.name)) for field in fields(self)}
        return {**ours, **self.gdal_options(), **self._settled_at_start()}

    def gdal_options(self) -> dict[str, str]:
        """Options that GDAL reads whenever it needs them."""
        return {
            **CLOSED,
            # Not from other files next to the named one.
            "GDAL_GEOREF_SOURCES": "INTERNAL",
            "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": os.devnull,
            "GDAL_NUM_THREADS": str(self.gdal_threads),
        }

    def _settled_at_start(self) -> dict[str, str]:
        drivers = NEEDED_DRIVERS | set(self.gdal_drivers.replace(",", " ").split())
        return {
            "GDAL_SKIP": ",".join(name for name in REFUSED_DRIVERS if name not in drivers),
            "GDAL_DRIVER_PATH": os.devnull,
            "GDAL_CONFIG_FILE": os.devnull,
            "GDAL_CACHEMAX": f"{self.gdal_cache_mb}MB",
        }
