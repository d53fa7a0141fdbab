//! Section `network`: what a box reaches, and who reaches it.

use serde::{Deserialize, Serialize};

/// Section `network`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NetworkSection {
    /// How the box is connected.
    pub mode: NetworkMode,
    /// What it reaches. Only with `own_ip`.
    #[serde(default)]
    pub egress: Egress,
    /// Ports of the host at which it is reached. Only with `own_ip`.
    #[serde(default)]
    pub ingress: Vec<Ingress>,
    /// Whether the box itself may ask for further ports.
    #[serde(default)]
    pub dynamic_ingress: DynamicIngress,
}

/// How a box is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// A network of its own with loopback only.
    #[default]
    None,
    /// The host's network, as the caller has it: its addresses, its ports, its loopback.
    HostIp,
    /// A network of its own, from which it reaches what `egress` names.
    OwnIp,
}

impl NetworkMode {
    /// The word of spec and record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::HostIp => "host_ip",
            Self::OwnIp => "own_ip",
        }
    }
}

/// What a box reaches. What is denied is denied, whatever is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Host names: exact, or all below one with `*.example.com`; `:port` allows that port only.
    pub allow_dns_hosts: Vec<String>,
    /// Networks, as in `10.1.0.0/16`.
    pub allow_subnets: Vec<String>,
    /// Networks.
    pub deny_subnets: Vec<String>,
    /// `tcp` and `udp`; none: all that this host can carry.
    pub allow_protocols: Vec<Protocol>,
}

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A port at which a box is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// On the host.
    pub host_port: u16,
    /// In the box.
    pub box_port: u16,
    /// The transport.
    pub protocol: Protocol,
}

/// What happens when a box asks for a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DynamicIngress {
    /// It gets it.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not.
    #[default]
    Deny,
}
