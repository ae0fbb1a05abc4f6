package main

import (
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/nacos"
)

// addNacosFlags adds the flags of the Nacos registry, which set s and default to its values.
func addNacosFlags(fs *pflag.FlagSet, s *nacos.Settings) {
	fs.StringSliceVar(&s.Servers, "nacosServers", s.Servers,
		"Nacos servers in the order in which they are tried, host:8848, for --registries Nacos; the port of gRPC is higher by 1000")
	fs.StringVar(&s.NamespaceID, "nacosNamespaceID", s.NamespaceID, "ID of the namespace of Nacos that is read")
	fs.StringSliceVar(&s.Groups, "nacosGroups", s.Groups, "groups of Nacos that are read")
	fs.DurationVar(&s.Interval, "nacosInterval", s.Interval, "time between two lists of Nacos' services")
	fs.DurationVar(&s.HoldTime, "nacosHoldTime", s.HoldTime,
		"how long instances stay at least that Nacos does not list after a reconnect; 0: until they are registered again")
	fs.StringVar(&s.Domain, "nacosDomain", s.Domain, "last part of the hosts of Nacos' services")
	fs.StringVar(&s.Namespace, "nacosNamespace", s.Namespace, "namespace of Nacos' services in the mesh")
	fs.StringVar(&s.AuthFile, "nacosAuthFile", s.AuthFile,
		"file with user:password for the login to Nacos; read again for each login")
	fs.BoolVar(&s.TLS, "nacosTLS", s.TLS, "use TLS for connections to Nacos")
	fs.StringVar(&s.CAFile, "nacosCAFile", s.CAFile,
		"roots that Nacos' certificates are verified against (default: the system's)")
	fs.StringVar(&s.CertFile, "nacosCertFile", s.CertFile,
		"client certificate for Nacos, in PEM; read again for each connection")
	fs.StringVar(&s.KeyFile, "nacosKeyFile", s.KeyFile, "its private key")
	fs.StringVar(&s.ServerName, "nacosServerName", s.ServerName,
		"name that Nacos' certificates must contain (default: the host of the server)")
}
