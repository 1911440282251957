"""The adapter `postgres`: a change of rows in a database of yours, described in one TOML file.

The effect behind a service that you control: the change and a row that says for which key it was
made are one transaction, so the same key again is no second effect, a lost answer is found by
reading that row, and where there is none nothing happened. Built by `kinds`.
"""
