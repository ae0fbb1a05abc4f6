package main

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/consul"
)

// addConsulFlags adds the flags of the Consul registry, which set s and default to its values. The
// first two have Istio's names.
func addConsulFlags(fs *pflag.FlagSet, s *consul.Settings) {
	fs.StringVar(&s.URL, "consulserverURL", s.URL, "URL of a Consul agent or server, for --registries Consul")
	fs.DurationVar(&s.Interval, "consulserverInterval", s.Interval,
		"minimum time between two reads of the list of Consul's services")
	fs.StringVar(&s.TokenFile, "consulTokenFile", s.TokenFile,
		"file with the ACL token for Consul; read again when it changes")
	fs.StringVar(&s.CAFile, "consulCAFile", s.CAFile,
		"roots that Consul's certificate is verified against (default: the system's)")
	fs.StringVar(&s.CertFile, "consulCertFile", s.CertFile,
		"client certificate for Consul, in PEM; read again for each connection")
	fs.StringVar(&s.KeyFile, "consulKeyFile", s.KeyFile, "its private key")
	fs.StringVar(&s.ServerName, "consulServerName", s.ServerName,
		"name that Consul's certificate must contain (default: the host of --consulserverURL)")
	fs.StringVar(&s.Datacenter, "consulDatacenter", s.Datacenter, "datacenter of Consul (default: the agent's)")
	fs.StringSliceVar(&s.OtherDatacenters, "consulOtherDatacenters", s.OtherDatacenters,
		"more datacenters of Consul, comma separated, which the agent or server forwards queries to")
	fs.StringSliceVar(&s.Peers, "consulPeers", s.Peers,
		"cluster peers of Consul whose exported services are read, comma separated, by the names of the peerings")
	fs.StringVar(&s.Namespace, "consulNamespace", s.Namespace,
		"namespace of Consul (default: the token's); also the namespace of its services in the mesh")
	fs.StringVar(&s.Partition, "consulPartition", s.Partition, "admin partition of Consul (default: the agent's)")
	fs.StringVar(&s.Domain, "consulDomain", s.Domain, "DNS domain of Consul's services")
	fs.IntVar(&s.Queries, "consulQueries", s.Queries,
		"maximum number of blocking queries of services at one time; with more services they take turns")
}
