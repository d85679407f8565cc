"""A real home's own values; the example to edit together with `inventory/home.py`."""

router_id = "192.168.88.1"
router_dns = "192.168.53.1"  # the router's own resolver, asked for local names
lan_networks = ["192.168.88.0/24", "192.168.53.0/24"]  # who may ask DNS questions
wan_interface = "ether1"  # DNS questions from there are refused
router_tls = True  # the API over TLS (8729); a self-signed certificate is pinned with router_tls_fingerprint
router_tls_fingerprint = None

# Boards are known by their SSH host key before anything is sent to them: log in once by hand, compare, then deploy.
ssh_strict_host_key_checking = "yes"  # "accept-new" believes whoever answers first; a changed key is refused either way

upstreams = ["tls://dns.quad9.net", "tls://one.one.one.one"]
bootstrap = ["9.9.9.9", "1.1.1.1"]  # where the names above are looked up
dhcp_network = None  # "192.168.88.0/24" lets DHCP hand out the service address as the one DNS server
