"""Recording a load: what the block layer of a host was asked, when, and when it was answered.

::

    trace buffer of the kernel ─pages→ events ─trace→ folder of columns ─character→ what a load is

``record.sh`` is what is executed on the host, through tracefs, with nothing installed there;
:mod:`iotrial_record.recorder` reads its pages while the kernel fills them.  What is on the disk,
and names of files, are never read.
"""
