"""Stripe's API v1: payments, refunds, and what Stripe tells of both.

Each rule names the page of docs.stripe.com that it comes from.
"""
