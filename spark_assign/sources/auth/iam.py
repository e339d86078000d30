"""IAM authentication of Amazon MSK: credentials and region as in aws-msk-iam-auth, and signed tokens for the broker.

For `sasl.mechanism=AWS_MSK_IAM`, kafka-python's own mechanism gets these credentials and the region of the broker's
host name. For OAUTHBEARER with the callback handler of aws-msk-iam-auth, AWS's signer makes the token. A request to
AWS itself is only made for a role (awsRoleArn).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.msk import AwsMskIamClient, SaslMechanismAwsMskIam

from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.tables.errors import ConfigError, SourceError, needs_extra

_NEEDS = "AWS_MSK_IAM needs aws-msk-iam-sasl-signer-python"
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com(?:\.cn)?$")
_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsRoleExternalId": "external_id",
    "awsStsRegion": "sts_region",
}
_IGNORED_OPTIONS = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")


@dataclass(frozen=True)
class Iam:
    """Selects the credentials that sign: of a profile, of a role, or from AWS's default chain (environment, files,
    instance).
    """

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "spark-assign-snapshot"
    external_id: str | None = None
    sts_region: str | None = None

    def session(self) -> Any:
        """Returns a botocore session."""
        with needs_extra(_NEEDS, "msk"):
            from botocore.session import Session
        return Session(profile=self.profile)

    def credentials(self) -> Any:
        """Returns the current credentials. Raises SourceError if there are none, or if the role is denied."""
        from botocore import exceptions
        from botocore.credentials import Credentials

        try:
            session = self.session()
            credentials = session.get_credentials()
            if credentials is None:
                raise SourceError(
                    "AWS_MSK_IAM: no AWS credentials. Give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                    "a profile (awsProfileName), or run where a role is attached."
                )
            if self.role_arn:
                sts = session.create_client("sts", region_name=self.sts_region or self.region())
                external = {"ExternalId": self.external_id} if self.external_id else {}
                response = sts.assume_role(RoleArn=self.role_arn, RoleSessionName=self.role_session_name, **external)
                role = response["Credentials"]
                credentials = Credentials(role["AccessKeyId"], role["SecretAccessKey"], role["SessionToken"])
            return credentials.get_frozen_credentials()
        except exceptions.ProfileNotFound as error:
            raise ConfigError(f"sasl.jaas.config, awsProfileName: {error}") from None
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            text = hidden(str(error), ())  # of AWS, or of a proxy
            raise SourceError(f"AWS_MSK_IAM: no credentials ({text}). Check the role, and its trust.") from None

    def region(self, host: str = "") -> str:
        """Returns the region of the broker's host name, as aws-msk-iam-auth does; else AWS_REGION,
        AWS_DEFAULT_REGION, the profile's.
        """
        match = _HOST.search(host)
        region = (
            (match[1] if match else None)
            or os.environ.get("AWS_REGION")
            or os.environ.get("AWS_DEFAULT_REGION")
            or self.session().get_config_variable("region")
        )
        if not region:
            raise ConfigError(f"AWS_MSK_IAM: no region in the name of {host or 'a broker'}. Set AWS_REGION.")
        return str(region)

    def token(self) -> str:
        """Returns a token for OAUTHBEARER: a signed URL that is valid for 15 minutes, made by AWS's signer."""
        with needs_extra(_NEEDS, "msk"):
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
            from botocore.credentials import CredentialProvider
        frozen = self.credentials()

        class _Found(CredentialProvider):  # type: ignore[misc]  # botocore has no types
            def load(self) -> Any:
                return frozen

        token, _ = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(self.region(), _Found())
        return Secret(token)

    def extensions(self) -> dict[str, str]:
        """Returns no SASL extensions."""
        return {}


def iam(options: Mapping[str, str]) -> Iam:
    """Parses the options of IAMLoginModule. Raises ConfigError for an unknown option."""
    for name in options:
        if name not in _OPTIONS and name not in _IGNORED_OPTIONS:
            raise ConfigError(f"sasl.jaas.config, {name}: IAMLoginModule's options here are {', '.join(_OPTIONS)}")
    return Iam(**{ours: str.__str__(options[theirs]) for theirs, ours in _OPTIONS.items() if options.get(theirs)})


class SignedLogin(SaslMechanismAwsMskIam):  # type: ignore[misc]  # the library has no types
    """kafka-python's mechanism with our credentials and region instead of botocore's defaults."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._iam: Iam = config["sasl_oauth_token_provider"]

    def _build_client(self) -> AwsMskIamClient:
        credentials = self._iam.credentials()
        return AwsMskIamClient(
            self.host,
            credentials.access_key,
            credentials.secret_key,
            self._iam.region(self.host),
            token=credentials.token,
        )


def speak() -> None:
    """Registers `SignedLogin` as kafka-python's AWS_MSK_IAM mechanism. Raises ConfigError without AWS's libraries."""
    Iam().session()
    register_sasl_mechanism("AWS_MSK_IAM", SignedLogin, overwrite=True)
