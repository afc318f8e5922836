"""Reports of checks: one value (:class:`~iotrial_suites.result.Checked`), several forms of it."""
