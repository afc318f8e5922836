"""What fio writes: JSON, text, terse, logs; and its job files."""
