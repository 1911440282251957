"""Providers: the only code that speaks to the outside world where effects happen.

One port (`port`), one way to exchange a request over HTTP (`http_exchange`), one module or package
for each provider. Performing and finding are separate classes: whoever only looks up is never
handed an object that can act.
"""
