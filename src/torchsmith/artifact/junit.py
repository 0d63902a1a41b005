"""Results of a trial as JUnit XML, which every CI system can show."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from torchsmith.artifact.trial import Trial

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(trial: Trial) -> str:
    """One test case per step; failed and skipped are told apart."""
    results = trial.results
    suite = ElementTree.Element(
        "testsuite",
        name=trial.variant or trial.path,
        tests=str(len(results)),
        failures=str(sum(result.outcome == "failed" for result in results)),
        skipped=str(sum(result.outcome == "skipped" for result in results)),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname="torchsmith.test", name=result.step, time=f"{result.seconds:.3f}"
        )
        text = NOT_XML.sub("�", f"{result.detail}\n{result.hint}".strip())
        if result.outcome == "failed":
            ElementTree.SubElement(case, "failure", message=text.splitlines()[0] if text else "").text = text
        elif result.outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=text)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
