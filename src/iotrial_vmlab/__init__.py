"""Virtual storage laboratories: machines of QEMU that become ordinary hosts.

::

    recipe ─build→ image (base disk, kernel, first stage)        once, cached by its checksum
    kind of lab + number of nodes ─plan→ Lab ─power→ QEMU processes, disks, an ssh configuration

A **lab** is a set of **nodes** (virtual machines) with **disks**, of a **kind** (``labs/``, one
file each).  A node may have a **role** in it (``guest/roles/``): a script that begins what the node
is for, and says what of that is lacking yet.  What lies in a lab's folder is the state; whether a
node runs is asked of ``/proc``, by the command line that names its folder, never of a pid file
alone.
"""
