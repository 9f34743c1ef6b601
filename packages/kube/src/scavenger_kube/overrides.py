"""What a command line says of cluster and user in the place of what the kubeconfig says: kubectl's global flags.

The rules are those of client-go (tools/clientcmd, DirectClientConfig.getCluster and getAuthInfo). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Entry = dict[str, Any]

_AUTHORITY: Final = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
_LOGINS: Final = ("exec", "tokenFile", "username", "password", "auth-provider")
"""What a user's entry proves itself by, beside a client certificate; a token that is given stands for all of them."""


@dataclass(frozen=True)
class Overrides:
    """Values of global flags; empty where a flag was not given.

    cluster: name of a cluster of the kubeconfig. server: URL. certificate_authority: path of a file. act_as,
    act_as_uid, act_as_groups: who is to be impersonated.
    """

    cluster: str = ""
    server: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    token: str = field(default="", repr=False)
    act_as: str = ""
    act_as_uid: str = ""
    act_as_groups: tuple[str, ...] = ()

    def on_cluster(self, entry: Entry) -> Entry:
        """A cluster's entry with what was given in the place of what it has.

        A server of its own has a certificate of its own: the name that the kubeconfig expects in it counts no longer.
        Whom to trust is replaced as a whole, or the authority of the kubeconfig would contradict the flag.
        """
        entry = dict(entry)
        if self.server:
            entry["server"] = self.server
        if self.server or self.tls_server_name:
            entry.pop("tls-server-name", None)
        if self.tls_server_name:
            entry["tls-server-name"] = self.tls_server_name
        if self.certificate_authority or self.insecure_skip_tls_verify:
            for name in _AUTHORITY:
                entry.pop(name, None)
        if self.certificate_authority:
            entry["certificate-authority"] = str(Path(self.certificate_authority).absolute())
        if self.insecure_skip_tls_verify:
            entry["insecure-skip-tls-verify"] = True
        return entry

    def on_user(self, entry: Entry) -> Entry:
        """A user's entry with what was given in the place of what it has; groups replace all groups."""
        entry = dict(entry)
        if self.token:
            entry = {name: value for name, value in entry.items() if name not in _LOGINS}
            entry["token"] = self.token
        given = {"as": self.act_as, "as-uid": self.act_as_uid, "as-groups": list(self.act_as_groups)}
        return entry | {name: value for name, value in given.items() if value}


NONE: Final = Overrides()
"""The kubeconfig as it stands."""
