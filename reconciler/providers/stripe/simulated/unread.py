"""The fields of Stripe's objects that nobody here reads, so that answers are as large as Stripe's:
a full page of them is more than one answer may have.

Names and kinds are those of docs.stripe.com/api (payment_intents/object, charges/object,
refunds/object). Holds no behaviour.
"""

from typing import Final

from pydantic import JsonValue

Fields = dict[str, JsonValue]

_ADDRESS: Final[Fields] = {
    "city": None,
    "country": None,
    "line1": None,
    "line2": None,
    "postal_code": None,
    "state": None,
}

PAYMENT: Final[Fields] = {
    "amount_details": {"tip": {}},
    "application": None,
    "application_fee_amount": None,
    "automatic_payment_methods": {"allow_redirects": "always", "enabled": True},
    "client_secret": "pi_simulated_secret_of_nobody_and_for_nothing_at_all",
    "excluded_payment_method_types": None,
    "on_behalf_of": None,
    "payment_method_configuration_details": {"id": "pmc_simulated", "parent": None},
    "payment_method_options": {
        "card": {
            "installments": None,
            "mandate_options": None,
            "network": None,
            "request_three_d_secure": "automatic",
        },
        "link": {"persistent_token": None},
    },
    "processing": None,
    "receipt_email": None,
    "review": None,
    "setup_future_usage": None,
    "shipping": None,
    "source": None,
    "statement_descriptor": None,
    "statement_descriptor_suffix": None,
    "transfer_data": None,
    "transfer_group": None,
}

CHARGE: Final[Fields] = {
    "application": None,
    "application_fee": None,
    "application_fee_amount": None,
    "billing_details": {
        "address": {**_ADDRESS},
        "email": None,
        "name": None,
        "phone": None,
        "tax_id": None,
    },
    "calculated_statement_descriptor": "SIMULATED SHOP",
    "customer": None,
    "failure_balance_transaction": None,
    "failure_message": None,
    "fraud_details": {},
    "on_behalf_of": None,
    "outcome": {
        "network_status": "approved_by_network",
        "reason": None,
        "risk_level": "normal",
        "risk_score": 32,
        "seller_message": "Payment complete.",
        "type": "authorized",
    },
    "payment_method": "pm_simulated",
    "payment_method_details": {
        "card": {
            "brand": "visa",
            "checks": {
                "address_line1_check": None,
                "address_postal_code_check": None,
                "cvc_check": "pass",
            },
            "country": "US",
            "exp_month": 12,
            "exp_year": 2034,
            "fingerprint": "simulated",
            "funding": "credit",
            "installments": None,
            "last4": "4242",
            "mandate": None,
            "network": "visa",
            "three_d_secure": None,
            "wallet": None,
        },
        "type": "card",
    },
    "receipt_email": None,
    "receipt_number": None,
    "receipt_url": "https://pay.stripe.example/receipts/payment/of-a-simulated-charge",
    "review": None,
    "shipping": None,
    "source_transfer": None,
    "statement_descriptor": None,
    "statement_descriptor_suffix": None,
    "transfer_data": None,
    "transfer_group": None,
}

REFUND: Final[Fields] = {
    "destination_details": {
        "card": {
            "reference": "simulated",
            "reference_status": "available",
            "reference_type": "acquirer_reference_number",
            "type": "refund",
        },
        "type": "card",
    },
    "source_transfer_reversal": None,
    "transfer_reversal": None,
}
