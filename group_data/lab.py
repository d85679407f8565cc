"""The embedded lab's own values; `anycastlab.site.topology` draws the picture."""

# Built here from the machine's own Debian mirror; or REMOTE:NAME, such as "images:debian/13": a Debian 12 or 13 of an
# Incus remote, to which this machine adds the packages once, from that same mirror.
image = "local"
image_release = 13  # Debian release of the local image: 13, or 12; a remote image has its own
node_cpus = 1
node_memory_mib = 512  # three times AdGuard Home's resident memory is the least: filter updates double it for seconds

router_version = "7.22.3"  # RouterOS version that the stand-in answers like; 7.16 to 7.24
router_id = "10.1.1.1"
lan_networks = ["10.1.1.0/24", "10.1.2.0/24"]
wan_interface = "ether1"

upstreams = ["203.0.113.53"]  # the lab's internet
wan_probe_suffix = "rnd.lab.example"  # the lab's internet has an address for every name below it
upstream_delay_ms = 35  # milliseconds; what a public resolver costs more than the LAN
blocklist = ["ads.lab.example"]
