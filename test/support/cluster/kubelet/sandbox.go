package kubelet

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// makeSandbox creates the namespaces and files that the Pod's containers share: a directory, a
// network, and the files that name hosts.
func (p *pod) makeSandbox() (err error) {
	spec := &p.currentObject().Spec
	if err := os.MkdirAll(filepath.Join(p.dir, "volumes"), 0o755); err != nil {
		return err
	}
	if spec.HostNetwork {
		p.network = &podNetwork{addresses: p.k.NodeIPs}
	} else if p.network, err = p.k.network.addPod(p.linkName()); err != nil {
		return err
	}
	if !spec.HostNetwork {
		// As Docker and containerd do: images such as CoreDNS's serve port 53 without being root.
		list := []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
		if c := spec.SecurityContext; c != nil {
			list = append(list, c.Sysctls...)
		}
		for _, s := range list {
			if err := p.network.setParameter(s.Name, s.Value); err != nil {
				return fmt.Errorf("set %s: %w", s.Name, err)
			}
		}
	}
	for name, text := range map[string]string{"hosts": p.hostsFile(), "resolv.conf": p.resolvConf()} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// linkName is the name of the node's end of the Pod's cable.
func (p *pod) linkName() string { return "pod" + strings.ReplaceAll(string(p.uid), "-", "")[:12] }

// primaryIP is the Pod's address of the first family.
func (p *pod) primaryIP() netip.Addr { return p.network.addresses[0] }

func (p *pod) hostsFile() string {
	spec := &p.currentObject().Spec
	name := p.hostName()
	if spec.Subdomain != "" {
		name = fmt.Sprintf("%s.%s.%s.svc.%s %s", name, spec.Subdomain, p.namespace, p.k.Domain, name)
	}
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost\n")
	for _, a := range p.network.addresses {
		fmt.Fprintf(&b, "%s\t%s\n", a, name)
	}
	for _, a := range spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.String()
}

func (p *pod) hostName() string {
	if h := p.currentObject().Spec.Hostname; h != "" {
		return h
	}
	return p.name
}

// resolvConf is that of dnsPolicy, with dnsConfig added. The node's own name server is not passed
// on: nothing leads to it.
func (p *pod) resolvConf() string {
	spec := &p.currentObject().Spec
	var servers, searches, options []string
	if spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet ||
		spec.DNSPolicy == corev1.DNSClusterFirst && !spec.HostNetwork {
		servers = []string{p.k.DNS.String()}
		searches = []string{p.namespace + ".svc." + p.k.Domain, "svc." + p.k.Domain, p.k.Domain}
		options = []string{"ndots:5"}
	}
	if c := spec.DNSConfig; c != nil {
		servers, searches = append(servers, c.Nameservers...), append(searches, c.Searches...)
		for _, o := range c.Options {
			option := o.Name
			if o.Value != nil {
				option += ":" + *o.Value
			}
			options = append(options, option)
		}
	}
	var b strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(searches, " "))
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.String()
}
