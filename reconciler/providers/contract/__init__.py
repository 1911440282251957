"""The contract suite: what the provider port promises, asked of any adapter.

It comes in two halves. `alone` asks an adapter by itself and calls nobody; `staged` asks it in
front of a provider that does wrong what it is told to, which an adapter's author brings as a
`Stage`. What cannot be asked of an adapter is said with the reason, never passed over. It needs no
test runner: `actionledger provider check FILE --suite`, or a loop over `CHECKS` in anybody's own.
"""
