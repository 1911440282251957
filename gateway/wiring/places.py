"""Names of files in a state folder, beside those of the local servers."""

from typing import Final

KEYS_FILE: Final = "api_keys.toml"
"""What recognises API keys; the door's."""

KEY_FILE: Final = "api_key"
"""The local tenant's own key, for the command line."""

SECRETS_FILE: Final = "webhook_secrets.toml"
PROVIDER_FOLDER: Final = "provider"
"""The simulated provider's book, and what else it keeps."""
