"""The load of a trial: started, watched and ended; and what is done just before and after it."""
