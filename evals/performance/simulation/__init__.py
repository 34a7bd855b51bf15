"""The cost of long sessions on a virtual clock: real policy, modelled sizes and prices."""
