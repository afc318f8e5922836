"""iotrial runs controlled trials of Linux storage settings.

The nouns, one meaning each.  All are frozen values (``iotrial.model``); verbs are functions.

============  =====================================================  ========================
noun          is                                                     is not
============  =====================================================  ========================
Host          a machine we can act on: local, over SSH, fake         an inventory line
Target        what the I/O is aimed at: block device, file,          the thing being tuned
              directory; with its identity and whether it may be
              destroyed
Tunable       one knob: name, how to read it, its domain, what else  a value
              a write to it *moves*, how long it lasts
Setting       a tunable at a value on a device                       a wish: it is read back
Workload      the load applied: tool + options + duration            a result
Chore         something done to a target before or after its trials  part of the load
              (trim, fill, precondition, lay out, a command)
Factor        what is varied, and its levels: a tunable, a group of  a result column
              settings switched as one, a workload option, or the
              target itself
Study         question, hosts, targets, workloads, factors, design,  one execution of it
              decision rule
Treatment     one combination of factor levels                       a trial
Trial         one treatment x one workload x one block, to be done   repeated
              once
Measurement   one number (or time series) in base units, with its    a statistic
              trial and raw file
Doubt         what makes a trial less believable, and what to do     a log line
              about it; some doubts make it INVALID
Plugin        a module that adds a tunable, a tool, a rule … :       part of a study
              iotrial's own, of a package, or a user's file
Finding       effect, interval, verdict, the trials behind it        a chart
============  =====================================================  ========================

Grammar: a trial is *planned*, then *executed*; settings are *applied, held, restored*.
"Run" is a verb only on the command line.
"""

__version__ = "1.0.0"
