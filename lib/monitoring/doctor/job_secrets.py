"""The check of the secrets of jobs."""

from lib.config.job_secrets import variable
from lib.monitoring.doctor.finding import Deployment, FactMissing, Finding, green, red


def job_secrets(deployment: Deployment) -> Finding:
    """Check that each GIFTCARD_SECRET_<NAME> has its hosts. Without a secret there is no such line."""
    secrets = deployment.settings.job_secrets
    if not secrets:
        raise FactMissing("job_secrets")
    without = sorted(name for name, secret in secrets.items() if not secret.hosts)
    if not without:
        return green("every secret of jobs has its hosts")
    return red(
        f"no job can send these secrets, because they have no hosts: {', '.join(without)}",
        fix=f"set {variable(without[0], '_HOSTS')} to the hosts that may receive it, and deploy again",
    )
