"""Whether messages of other queues can come in."""

from lib.monitoring.doctor.finding import Finding, Patient, green, red, yellow


def pgmq(patient: Patient) -> Finding:
    """Every queue of GIFTCARD_PGMQ_QUEUES can be moved, and leads to a stage. Without the setting there is no line."""
    problems = [sums["problem"] for sums in patient.facts["pgmq"].values() if "problem" in sums]
    if problems:
        return red("; ".join(dict.fromkeys(problems)), mend="docs/queues.md#what-is-needed tells what to do about each")
    unknown = [
        f"messages of {queue} are for the stage {stage}, which this code does not know"
        for queue, stage in patient.settings.giftcard_pgmq_queues
        if stage not in patient.registry.stages
    ]
    if unknown:
        return yellow("; ".join(unknown), mend="mend GIFTCARD_PGMQ_QUEUES, or deploy the code that knows the stage")
    return green("the queues can be moved: " + ", ".join(patient.facts["pgmq"]))
