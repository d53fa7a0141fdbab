//! What a box reaches.

use std::net::IpAddr;

use serde_json::{Value as Json, json};

use super::Reader;
use crate::keys;
use crate::problem::Fault;
use crate::source::{Node, Table};

impl Reader<'_> {
    /// The table replaces that of lower layers, all of it but the networks that are denied.
    pub(super) fn network(&mut self, node: &Node) {
        let keys = ["mode", "egress", "ingress", "dynamic_ingress"];
        let Some(table) = self.table_of("network", node, &keys) else { return };
        let span = &node.span;
        match table.get("mode") {
            Some(mode) => {
                self.choice(&["network", "mode"], "network.mode", mode, keys::NETWORK_MODES);
            }
            None => self.set(&["network", "mode"], "none", span),
        }
        let nothing = Table::default();
        let egress = match table.get("egress") {
            Some(egress) => {
                let keys = ["allow_dns_hosts", "allow_subnets", "deny_subnets", "allow_protocols"];
                let Some(table) = self.table_of("network.egress", egress, &keys) else { return };
                table
            }
            None => &nothing,
        };
        self.list(egress, "allow_dns_hosts", span, Self::host);
        self.list(egress, "allow_subnets", span, Self::subnet);
        self.list(egress, "allow_protocols", span, |it, what, node| {
            it.word(what, node, keys::PROTOCOLS)
        });
        if let Some(denied) = egress.get("deny_subnets") {
            for node in self.array("deny_subnets", denied).unwrap_or_default() {
                if let Some(subnet) = self.subnet("deny_subnets", node) {
                    self.add(&["network", "egress", "deny_subnets"], subnet, &node.span);
                }
            }
        }
        match table.get("ingress") {
            Some(ingress) => {
                let nodes = self.array("network.ingress", ingress).unwrap_or_default();
                let ports: Vec<Json> = nodes.iter().filter_map(|node| self.port(node)).collect();
                self.set(&["network", "ingress"], ports, &ingress.span);
            }
            None => self.set(&["network", "ingress"], json!([]), span),
        }
        let dynamic = ["network", "dynamic_ingress"];
        match table.get("dynamic_ingress") {
            Some(node) => self.choice(&dynamic, "network.dynamic_ingress", node, keys::DYNAMIC),
            None => self.set(&dynamic, "deny", span),
        }
    }

    /// A list of egress, empty where the table does not have it.
    fn list(
        &mut self,
        egress: &Table,
        key: &str,
        whole: &crate::source::Span,
        read: fn(&mut Self, &str, &Node) -> Option<String>,
    ) {
        let (nodes, span) = match egress.get(key) {
            Some(node) => (self.array(key, node).unwrap_or_default(), &node.span),
            None => (&[][..], whole),
        };
        let texts: Vec<String> = nodes.iter().filter_map(|node| read(self, key, node)).collect();
        self.set(&["network", "egress", key], texts, span);
    }

    /// `example.com`, `*.example.com`, with `:port` or without.
    fn host(&mut self, what: &str, node: &Node) -> Option<String> {
        let text = self.text(what, node)?;
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, port.parse::<u16>().is_ok_and(|port| port > 0)),
            None => (text.as_str(), true),
        };
        let name = name.strip_prefix("*.").unwrap_or(name);
        let label = |label: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            (1..=63).contains(&label.len())
                && label.chars().all(fits)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if port && name.len() <= 253 && name.split('.').all(label) {
            return Some(text);
        }
        let shown: String = text.chars().take(80).collect();
        let why = format!(
            "`{shown}` is not a host: write `example.com` or `*.example.com`, in lower case, with `:port` or without"
        );
        self.problem(Fault::WrongValue, &node.span, why);
        None
    }

    /// `10.1.0.0/16`, `fd00::/8`.
    fn subnet(&mut self, what: &str, node: &Node) -> Option<String> {
        let text = self.text(what, node)?;
        let is_subnet = || {
            let (address, bits) = text.split_once('/')?;
            let most = match address.parse().ok()? {
                IpAddr::V4(_) => 32,
                IpAddr::V6(_) => 128,
            };
            bits.parse::<u8>().ok().filter(|bits| *bits <= most)
        };
        if is_subnet().is_some() {
            return Some(text);
        }
        let shown: String = text.chars().take(80).collect();
        let why = format!(
            "`{shown}` is not a network: write `10.1.0.0/16`, or `10.1.2.3/32` for one address"
        );
        self.problem(Fault::WrongValue, &node.span, why);
        None
    }

    /// `8080:80`, `5353:53/udp`.
    fn port(&mut self, node: &Node) -> Option<Json> {
        let text = self.text("network.ingress", node)?;
        let read = || {
            let (ports, protocol) = text.split_once('/').unwrap_or((&text, "tcp"));
            let (host, inner) = ports.split_once(':')?;
            let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
            keys::PROTOCOLS.contains(&protocol).then_some(())?;
            Some(json!({"host_port": port(host)?, "box_port": port(inner)?, "protocol": protocol}))
        };
        let value = read();
        if value.is_none() {
            let shown: String = text.chars().take(80).collect();
            let why = format!(
                "`{shown}` is not a port: write the host's and the box's, as in `8080:80` or `5353:53/udp`"
            );
            self.problem(Fault::WrongValue, &node.span, why);
        }
        value
    }
}
