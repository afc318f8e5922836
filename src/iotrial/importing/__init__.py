"""Old results become data: files that other people's runs left → a results folder.

``files`` reads them by their formats, ``legend`` is what a person says about them, ``cells``
decides which runs belong together, ``plausible`` doubts what cannot be, and ``folder`` keeps it
all, originals included.  Only ``files`` and ``folder`` touch a disk.
"""
