"""Old results become data: files that other people's runs left → a results folder.

``files`` reads them by their formats, and ``fio_logs`` makes one run of the logs of one.
``legend`` is what a person says about them, ``copies`` what the names of files tell.  ``cells``
decides which runs belong together, and makes one of those that ran on several hosts.
``plausible`` doubts what cannot be, and says what is a bound and no value.  ``folder`` keeps it
all, originals included.  Only ``files`` and ``folder`` touch a disk.
"""
