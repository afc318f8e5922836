"""Together: checks and studies of one matter as one report, each thing beside its evidence."""
