"""Results of many studies in one place, and what can be asked of them.

::

    results folders ─content→ rows ─push→ store ─views→ list, find, sql

``content.py`` turns a results folder into the rows of the tables (``schema.py``).  A store is a
folder of Parquet files that DuckDB reads (``parquet.py``), or a PostgreSQL database
(``postgres.py``): the same views, the same answers.  Raw files stay where they are; the store has
their digest and place.
"""
