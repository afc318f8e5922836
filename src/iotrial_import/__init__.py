"""Old results become data: files that other people's runs left → a results folder.

``files`` reads them by their formats, and ``fio_logs`` makes one run of the logs of one.
``legend`` is what a person says about them.  ``cells`` decides which runs belong together;
``side_by_side`` and ``merged`` make one of those that ran on several hosts.  ``plausible`` doubts
what cannot be, ``bounds`` says what is no value, ``repeats`` merges latencies of a treatment's
runs, and ``folder`` keeps it all, originals included.
Only ``files`` and ``folder`` touch a disk.
"""
