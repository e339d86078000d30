"""IAM of Amazon MSK: credentials and region as aws-msk-iam-auth takes them, signed tokens for the broker.

`sasl.mechanism=AWS_MSK_IAM` is spoken by kafka-python's own mechanism, given these credentials and the region of the
broker's name; OAUTHBEARER with aws-msk-iam-auth's callback handler by the token of AWS's signer. AWS itself is only
asked for a role (awsRoleArn).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.msk import AwsMskIamClient, SaslMechanismAwsMskIam

from spark_assign.sources.auth.secret import Secret
from spark_assign.tables.errors import ConfigError, SourceError, missing_extra

_NEEDS = "AWS_MSK_IAM needs aws-msk-iam-sasl-signer-python"
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com(?:\.cn)?$")
_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsRoleExternalId": "external_id",
    "awsStsRegion": "sts_region",
}
_PASSED_OVER = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")


@dataclass(frozen=True)
class Iam:
    """Whose credentials sign: of a profile, of a role, or what AWS's chain finds (environment, files, the machine)."""

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "spark-assign-snapshot"
    external_id: str | None = None
    sts_region: str | None = None

    def session(self) -> Any:
        """botocore's session."""
        try:
            from botocore.session import Session
        except ImportError as error:
            raise missing_extra(_NEEDS, "msk") from error
        return Session(profile=self.profile)

    def credentials(self) -> Any:
        """Credentials of this moment. Raises SourceError where there are none, or the role is refused."""
        from botocore import exceptions
        from botocore.credentials import Credentials

        try:
            session = self.session()
            found = session.get_credentials()
            if found is None:
                raise SourceError(
                    "AWS_MSK_IAM: no AWS credentials. Give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                    "a profile (awsProfileName), or run where a role is attached."
                )
            if self.role_arn:
                sts = session.create_client("sts", region_name=self.sts_region or self.region())
                external = {"ExternalId": self.external_id} if self.external_id else {}
                given = sts.assume_role(RoleArn=self.role_arn, RoleSessionName=self.role_session_name, **external)
                role = given["Credentials"]
                found = Credentials(role["AccessKeyId"], role["SecretAccessKey"], role["SessionToken"])
            return found.get_frozen_credentials()
        except exceptions.ProfileNotFound as error:
            raise ConfigError(f"sasl.jaas.config, awsProfileName: {error}") from None
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise SourceError(f"AWS_MSK_IAM: no credentials ({error}). Check the role, and its trust.") from None

    def region(self, host: str = "") -> str:
        """Of the broker's name, as aws-msk-iam-auth has it; else AWS_REGION, AWS_DEFAULT_REGION, the profile's."""
        named = _HOST.search(host)
        found = (
            (named[1] if named else None)
            or os.environ.get("AWS_REGION")
            or os.environ.get("AWS_DEFAULT_REGION")
            or self.session().get_config_variable("region")
        )
        if not found:
            raise ConfigError(f"AWS_MSK_IAM: no region in the name of {host or 'a broker'}. Set AWS_REGION.")
        return str(found)

    def token(self) -> str:
        """For OAUTHBEARER: a signed URL that is valid for 15 minutes, by AWS's signer."""
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
            from botocore.credentials import CredentialProvider
        except ImportError as error:
            raise missing_extra(_NEEDS, "msk") from error
        frozen = self.credentials()

        class _Found(CredentialProvider):  # type: ignore[misc]  # botocore has no types
            def load(self) -> Any:
                return frozen

        token, _ = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(self.region(), _Found())
        return Secret(token)

    def extensions(self) -> dict[str, str]:
        """None."""
        return {}


def iam(options: Mapping[str, str]) -> Iam:
    """The options of IAMLoginModule. Raises ConfigError for one that it does not have."""
    for name in options:
        if name not in _OPTIONS and name not in _PASSED_OVER:
            raise ConfigError(f"sasl.jaas.config, {name}: IAMLoginModule's options here are {', '.join(_OPTIONS)}")
    return Iam(**{ours: str.__str__(options[theirs]) for theirs, ours in _OPTIONS.items() if options.get(theirs)})


class SignedLogin(SaslMechanismAwsMskIam):  # type: ignore[misc]  # the library has no types
    """The library's mechanism, with our credentials and region in place of botocore's defaults."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._iam: Iam = config["sasl_oauth_token_provider"]

    def _build_client(self) -> AwsMskIamClient:
        found = self._iam.credentials()
        return AwsMskIamClient(
            self.host, found.access_key, found.secret_key, self._iam.region(self.host), token=found.token
        )


def speak() -> None:
    """From here on, kafka-python's AWS_MSK_IAM is `SignedLogin`. Raises ConfigError without AWS's libraries."""
    Iam().session()
    register_sasl_mechanism("AWS_MSK_IAM", SignedLogin, overwrite=True)
