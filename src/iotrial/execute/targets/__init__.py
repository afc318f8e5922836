"""Making targets and removing them: loop devices, files, file systems, mounts, folders."""
