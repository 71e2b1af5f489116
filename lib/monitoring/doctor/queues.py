"""Checks of the pgmq import."""

from lib.monitoring.doctor.finding import Deployment, Finding, green, red, yellow


def pgmq(deployment: Deployment) -> Finding:
    """Check that every queue of GIFTCARD_PGMQ_QUEUES can be imported and has a known stage. Unset: no line."""
    problems = [queue["problem"] for queue in deployment.facts["pgmq"].values() if "problem" in queue]
    if problems:
        return red("; ".join(dict.fromkeys(problems)), fix="see docs/queues.md#what-is-needed")
    unknown = [
        f"messages of {queue} are for the stage {stage}, which this code does not have"
        for queue, stage in deployment.settings.giftcard_pgmq_queues
        if stage not in deployment.registry.stages
    ]
    if unknown:
        return yellow("; ".join(unknown), fix="correct GIFTCARD_PGMQ_QUEUES, or deploy the code that has the stage")
    return green("the queues can be imported: " + ", ".join(deployment.facts["pgmq"]))
