"""Formats that an import alone reads: of other tools, of former days, and fio's logs."""
