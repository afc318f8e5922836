"""Reports of checks: one value (:class:`~iotrial.model.checked.Checked`), several forms of it."""
