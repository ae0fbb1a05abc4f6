package main

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/nomad"
)

// addNomadFlags adds the flags of the Nomad registry, which set s and default to its values.
func addNomadFlags(fs *pflag.FlagSet, s *nomad.Settings) {
	fs.StringSliceVar(&s.Addresses, "nomadAddresses", s.Addresses,
		"URLs of Nomad agents in the order in which they are tried, http://host:4646, for --registries Nomad")
	fs.StringSliceVar(&s.Namespaces, "nomadNamespaces", s.Namespaces,
		"namespaces of Nomad that are read; each is the namespace of its services in the mesh")
	fs.StringVar(&s.Region, "nomadRegion", s.Region, "region of Nomad (default: that of the agent)")
	fs.StringVar(&s.Domain, "nomadDomain", s.Domain, "last part of the hosts of Nomad's services")
	fs.StringVar(&s.TokenFile, "nomadTokenFile", s.TokenFile,
		"file with the secret ID of an ACL token for Nomad; read again for each request")
	fs.StringVar(&s.CAFile, "nomadCAFile", s.CAFile,
		"roots that the certificates of Nomad's agents are verified against (default: the system's)")
	fs.StringVar(&s.CertFile, "nomadCertFile", s.CertFile,
		"client certificate for Nomad, in PEM; read again for each connection")
	fs.StringVar(&s.KeyFile, "nomadKeyFile", s.KeyFile, "its private key")
	fs.StringVar(&s.ServerName, "nomadServerName", s.ServerName,
		"name that the certificates of Nomad's agents must contain (default: the host of the address)")
}
