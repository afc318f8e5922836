"""Judgement: what a results folder comes to, as one value.

:func:`judge` is pure: results in, :class:`Judged` out.  ``findings.json``, reports, the live page,
JUnit and ``keep`` say nothing that is not in it::

    from pathlib import Path

    from iotrial.judgement import judge
    from iotrial.store import open_results

    judged = judge(open_results(Path("results/2026-11-20-scheduler")))
    print(judged.comparison.recommendation)
    for finding in judged.comparison.findings:
        print(finding.factor, finding.level, finding.ratio, finding.low, finding.high)
    for doubt in judged.doubts:
        print(doubt.check, doubt.what)
"""

from iotrial.judgement.judged import Judged, completed, judge, trial_counts

__all__ = ["Judged", "completed", "judge", "trial_counts"]
