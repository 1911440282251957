"""The adapter `smtp`: e-mail through a submission server, described in one TOML file.

What it can promise is little, and it says so: SMTP has no key, no lookup and no events. The
Message-ID is derived from the provider key, so that every attempt is the same message and a person
can search for it; nothing else keeps a second attempt from being a second e-mail. So there is one
attempt, and a lost answer is a matter for a person. Built by `kinds`.
"""
