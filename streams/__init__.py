"""Moving: the processes that carry records between the log and the decisions."""
