"""What `roxy doctor` found, as lines or as one document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.core.finding import Severity, counted
from roxy.reports import human, json
from roxy.reports.text import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roxy.core.finding import Finding

SCHEMA = "roxy.doctor/1"


def lines(findings: Sequence[Finding], *, quiet: bool, color: bool) -> str:
    """Return a line for each finding, and a count; with `quiet` only errors and warnings."""
    told = [
        human.said(finding.severity, _text(finding), color=color)
        for finding in findings
        if not quiet or finding.severity is not Severity.INFO
    ]
    if not quiet:
        told.append(f"{_count(findings)}\n")
    return "".join(told)


def document(findings: Sequence[Finding]) -> str:
    """Return the same for programs."""
    return json.dump(
        {
            "schema": SCHEMA,
            "findings": [
                {
                    "severity": finding.severity,
                    "code": finding.code,
                    "what": without_surrogates(finding.what),
                    "where": finding.where and without_surrogates(finding.where),
                    "hint": finding.hint and without_surrogates(finding.hint),
                }
                for finding in findings
            ],
            "counts": {severity: _number(findings, severity) for severity in Severity},
        }
    )


def _text(finding: Finding) -> str:
    parts = (finding.what, finding.where and f"at {finding.where}", finding.hint)
    return "; ".join(part for part in parts if part)


def _count(findings: Sequence[Finding]) -> str:
    if not findings:
        return "nothing was found"
    counts = (
        (Severity.ERROR, "error", ""),
        (Severity.WARNING, "warning", ""),
        (Severity.INFO, "info", "info"),
    )
    listed = (
        counted(number, noun, plural)
        for severity, noun, plural in counts
        if (number := _number(findings, severity))
    )
    return f"{counted(len(findings), 'finding')}: {', '.join(listed)}"


def _number(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(finding.severity is severity for finding in findings)
