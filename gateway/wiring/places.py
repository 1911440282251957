"""Names of files in a state folder, beside those of the local servers."""

from typing import Final

KEYS_FILE: Final = "api_keys.toml"
"""What recognises API keys; the door's."""

KEY_FILE: Final = "api_key"
"""The local tenant's own key, for the command line."""

CREDENTIALS_FILE: Final = "kafka_credentials.toml"
"""The login of every component at the local Kafka."""

KAFKA_ADMIN_FILE: Final = "kafka/admin_password"
"""The super user's; the broker's own folder."""

SECRETS_FILE: Final = "webhook_secrets.toml"
PROVIDER_FOLDER: Final = "provider"
"""The simulated provider's book, and what else it keeps."""

PROVIDERS_FOLDER: Final = "providers"
"""Descriptions of providers that the local installation uses, each named after its provider."""

CONSOLE_FILE: Final = "console.toml"
"""Under which origin the pages are, and what seals their sessions; the door's."""
