"""The gateway as an Azure Function: the same application as `rmhdag gateway`, set up by environment variables.

The host must not add a prefix to routes (host.json), and asks for the functions of this file once.
"""

import azure.functions as func

from rmhdag.gateway.application import Gateway
from rmhdag.gateway.configuration import EnvironmentConfiguration

settings = EnvironmentConfiguration.read()
gateway = Gateway(
    settings,
    schema_name=settings.schema_name,
    pooled=settings.database_pooled,
    retention_days=settings.retention_days,
)
# The gateway checks keys itself: the host lets everybody through to it.
app = func.AsgiFunctionApp(app=gateway, http_auth_level=func.AuthLevel.ANONYMOUS)
